package test

import (
	"errors"
	"fmt"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// scaledObject has the fields of KEDA's ScaledObject that the chart uses, written after
// github.com/kedacore/keda/v2/apis/keda/v1alpha1. That package needs controller-runtime and a module with several
// hundred dependencies, so it is not imported.
type scaledObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		ScaleTargetRef struct {
			Name string `json:"name"`
		} `json:"scaleTargetRef"`
		MinReplicaCount *int32 `json:"minReplicaCount"`
		MaxReplicaCount *int32 `json:"maxReplicaCount"`
		PollingInterval *int32 `json:"pollingInterval"`
		Fallback        struct {
			FailureThreshold int32  `json:"failureThreshold"`
			Replicas         int32  `json:"replicas"`
			Behavior         string `json:"behavior"`
		} `json:"fallback"`
		Advanced struct {
			HorizontalPodAutoscalerConfig struct {
				Behavior *autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior"`
			} `json:"horizontalPodAutoscalerConfig"`
		} `json:"advanced"`
		Triggers []struct {
			Type              string                         `json:"type"`
			MetricType        autoscalingv2.MetricTargetType `json:"metricType"`
			Metadata          map[string]string              `json:"metadata"`
			AuthenticationRef *struct {
				Name string `json:"name"`
			} `json:"authenticationRef"`
		} `json:"triggers"`
	} `json:"spec"`
}

// types returns a value of the type of an object, by apiVersion and kind.
var types = map[string]func() metav1.Object{
	"apps/v1 Deployment":                      func() metav1.Object { return &appsv1.Deployment{} },
	"apps/v1 StatefulSet":                     func() metav1.Object { return &appsv1.StatefulSet{} },
	"autoscaling/v2 HorizontalPodAutoscaler":  func() metav1.Object { return &autoscalingv2.HorizontalPodAutoscaler{} },
	"batch/v1 Job":                            func() metav1.Object { return &batchv1.Job{} },
	"gateway.networking.k8s.io/v1 HTTPRoute":  func() metav1.Object { return &gatewayv1.HTTPRoute{} },
	"keda.sh/v1alpha1 ScaledObject":           func() metav1.Object { return &scaledObject{} },
	"monitoring.coreos.com/v1 PrometheusRule": func() metav1.Object { return &monitoringv1.PrometheusRule{} },
	"monitoring.coreos.com/v1 ServiceMonitor": func() metav1.Object { return &monitoringv1.ServiceMonitor{} },
	"networking.k8s.io/v1 Ingress":            func() metav1.Object { return &networkingv1.Ingress{} },
	"networking.k8s.io/v1 NetworkPolicy":      func() metav1.Object { return &networkingv1.NetworkPolicy{} },
	"policy/v1 PodDisruptionBudget":           func() metav1.Object { return &policyv1.PodDisruptionBudget{} },
	"v1 ConfigMap":                            func() metav1.Object { return &corev1.ConfigMap{} },
	"v1 Service":                              func() metav1.Object { return &corev1.Service{} },
	"v1 ServiceAccount":                       func() metav1.Object { return &corev1.ServiceAccount{} },
}

// decode decodes an object strictly: unknown and repeated fields, and wrong types, are errors.
func decode(text string) (o object, err error) {
	b, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return o, err
	}
	var is metav1.TypeMeta
	if err := json.UnmarshalCaseSensitivePreserveInts(b, &is); err != nil {
		return o, err
	}
	make, known := types[is.APIVersion+" "+is.Kind]
	if !known {
		return o, fmt.Errorf("no type is known for %s %s", is.APIVersion, is.Kind)
	}
	typed := make()
	strict, err := json.UnmarshalStrict(b, typed)
	if err := errors.Join(append(strict, err)...); err != nil {
		return o, fmt.Errorf("%s %s: %w", is.Kind, typed.GetName(), err)
	}
	return object{
		kind: is.Kind, name: typed.GetName(), hook: typed.GetAnnotations()["helm.sh/hook"], text: text, typed: typed,
	}, nil
}

// pod is the template of an object's pods.
type pod struct {
	owner  *object
	labels map[string]string
	spec   *corev1.PodSpec
}

func (p *pod) component() string { return p.labels["app.kubernetes.io/component"] }

// pods returns the templates of all pods.
func (r *release) pods() (all []pod) {
	for i := range r.objects {
		o := &r.objects[i]
		var template *corev1.PodTemplateSpec
		switch typed := o.typed.(type) {
		case *appsv1.Deployment:
			template = &typed.Spec.Template
		case *appsv1.StatefulSet:
			template = &typed.Spec.Template
		case *batchv1.Job:
			template = &typed.Spec.Template
		default:
			continue
		}
		all = append(all, pod{o, template.Labels, &template.Spec})
	}
	return all
}
