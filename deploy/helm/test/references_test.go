package test

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// secretOfDefaults is the Secret that values.yaml names.
const secretOfDefaults = "penstock-redis"

// referenceFaults checks that what pods refer to exists: ConfigMaps and accounts in the release, Secrets by a name in
// the values, because the chart makes none.
func referenceFaults(_ *testing.T, r *release) (found faults) {
	maps, accounts := map[string]*corev1.ConfigMap{}, map[string]bool{}
	for _, m := range of[*corev1.ConfigMap](r) {
		maps[m.Name] = m
	}
	for _, a := range of[*corev1.ServiceAccount](r) {
		accounts[a.Name] = true
	}
	for _, p := range r.pods() {
		secret := func(name, where string) {
			if name == "" || name != secretOfDefaults && !strings.Contains(r.values, name) {
				found.add("%s: %s refers to the Secret %q, which no value names", p.owner, where, name)
			}
		}
		configMap := func(name string, items []corev1.KeyToPath) {
			m, exists := maps[name]
			if !exists {
				found.add("%s: there is no ConfigMap %s", p.owner, name)
				return
			}
			for _, item := range items {
				if _, has := m.Data[item.Key]; !has {
					found.add("%s: the ConfigMap %s has no %s", p.owner, name, item.Key)
				}
			}
		}
		a := p.spec.ServiceAccountName
		if a != "" && !accounts[a] && !strings.Contains(r.values, "create: false, name: "+a) {
			found.add("%s: there is no ServiceAccount %s", p.owner, a)
		}
		if a == "" && p.owner.hook != "pre-install" {
			found.add("%s: it has no ServiceAccount", p.owner)
		}
		for i := range p.spec.Volumes {
			v := &p.spec.Volumes[i]
			if v.Secret != nil {
				secret(v.Secret.SecretName, v.Name)
			}
			if v.ConfigMap != nil {
				configMap(v.ConfigMap.Name, v.ConfigMap.Items)
			}
			for _, s := range sources(v) {
				if s.Secret != nil {
					secret(s.Secret.Name, v.Name)
				}
				if s.ConfigMap != nil {
					configMap(s.ConfigMap.Name, s.ConfigMap.Items)
				}
			}
		}
		names := map[string]bool{}
		for _, e := range p.spec.Containers[0].Env {
			if names[e.Name] {
				found.add("%s: %s is set twice", p.owner, e.Name)
			}
			names[e.Name] = true
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				secret(e.ValueFrom.SecretKeyRef.Name, e.Name)
			}
		}
	}
	return found
}

func sources(v *corev1.Volume) []corev1.VolumeProjection {
	if v.Projected == nil {
		return nil
	}
	return v.Projected.Sources
}

// mountFaults checks that volumes are mounted, mounts have volumes, and an ingress gets no secrets of targets.
func mountFaults(_ *testing.T, r *release) (found faults) {
	for _, p := range r.pods() {
		volumes, mounted := map[string]bool{}, map[string]bool{}
		for i := range p.spec.Volumes {
			v := &p.spec.Volumes[i]
			volumes[v.Name] = true
			for _, s := range sources(v) {
				if s.Secret != nil && p.component() == "ingress" {
					found.add("%s: it can read the secret %s of a target", p.owner, s.Secret.Name)
				}
			}
		}
		if p.owner.kind == "StatefulSet" {
			volumes["data"] = true // its claim
		}
		at := map[string]bool{}
		for _, m := range p.spec.Containers[0].VolumeMounts {
			mounted[m.Name] = true
			if !volumes[m.Name] {
				found.add("%s: there is no volume %s to mount", p.owner, m.Name)
			}
			if at[m.MountPath] {
				found.add("%s: two volumes are mounted at %s", p.owner, m.MountPath)
			}
			at[m.MountPath] = true
			if strings.HasPrefix(m.MountPath, "/etc/") && !m.ReadOnly {
				found.add("%s: %s can be written to", p.owner, m.MountPath)
			}
		}
		for name := range volumes {
			if !mounted[name] {
				found.add("%s: the volume %s is not mounted", p.owner, name)
			}
		}
		for _, arg := range p.spec.Containers[0].Args {
			_, file, _ := strings.Cut(arg, "=")
			if strings.HasPrefix(file, "/etc/penstock/") && !at[file] && !at[path.Dir(file)] {
				found.add("%s: nothing is mounted for %s", p.owner, arg)
			}
		}
	}
	return found
}

// selected returns the pods that a selector selects.
func (r *release) selected(selector map[string]string) (some []pod) {
	for _, p := range r.pods() {
		if len(selector) > 0 && labels.SelectorFromSet(selector).Matches(labels.Set(p.labels)) {
			some = append(some, p)
		}
	}
	return some
}

func (p *pod) port(name string) int32 {
	for _, c := range p.spec.Containers[0].Ports {
		if c.Name == name {
			return c.ContainerPort
		}
	}
	return 0
}

// serviceFaults checks that Services, probes, budgets and routes reach a port of the right pods.
func serviceFaults(_ *testing.T, r *release) (found faults) {
	ports := map[string][]corev1.ServicePort{}
	for _, s := range of[*corev1.Service](r) {
		ports[s.Name] = s.Spec.Ports
		pods := r.selected(s.Spec.Selector)
		if len(pods) != 1 {
			found.add("Service %s: it selects %d kinds of pods", s.Name, len(pods))
			continue
		}
		for _, port := range s.Spec.Ports {
			if pods[0].port(port.TargetPort.StrVal) == 0 {
				found.add("Service %s: there is no port %s", s.Name, port.TargetPort.StrVal)
			}
		}
		headless := s.Spec.ClusterIP == corev1.ClusterIPNone && s.Spec.PublishNotReadyAddresses
		if s.Spec.Ports[0].Name == "health" && !headless {
			found.add("Service %s: it does not name every pod", s.Name)
		}
	}
	for _, p := range r.pods() {
		if p.owner.kind == "Job" {
			continue
		}
		c := &p.spec.Containers[0]
		for _, probe := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
			want := corev1.URISchemeHTTP
			if option(c.Args, "--tls-cert") != "" {
				want = corev1.URISchemeHTTPS
			}
			if g := probe.HTTPGet; p.port(g.Port.StrVal) == 0 || g.Scheme != want {
				found.add("%s: it is probed at %s with %s", p.owner, g.Port.StrVal, g.Scheme)
			}
		}
		for flag, name := range map[string]string{"--listen": "api", "--health-listen": "health"} {
			if p.component() == "drainer" {
				flag, name = "--listen", "health"
			}
			if want := ":" + itoa(p.port(name)); option(c.Args, flag) != want {
				found.add("%s: %s is %q, and its port %s is %s", p.owner, flag, option(c.Args, flag), name, want)
			}
		}
	}
	for _, b := range of[*policyv1.PodDisruptionBudget](r) {
		if len(r.selected(b.Spec.Selector.MatchLabels)) != 1 {
			found.add("PodDisruptionBudget %s: it selects no pods", b.Name)
		}
	}
	return append(found, routeFaults(r, ports)...)
}

func routeFaults(r *release, ports map[string][]corev1.ServicePort) (found faults) {
	hosts := map[string]bool{}
	for _, i := range of[*networkingv1.Ingress](r) {
		for _, rule := range i.Spec.Rules {
			hosts[rule.Host] = true
			b := rule.HTTP.Paths[0].Backend.Service
			if !slices.ContainsFunc(ports[b.Name], func(p corev1.ServicePort) bool { return p.Name == b.Port.Name }) {
				found.add("Ingress %s: there is no Service %s with a port %s", i.Name, b.Name, b.Port.Name)
			}
		}
	}
	for _, h := range of[*gatewayv1.HTTPRoute](r) {
		for _, host := range h.Spec.Hostnames {
			hosts[string(host)] = true
		}
		b := h.Spec.Rules[0].BackendRefs[0]
		if !slices.ContainsFunc(ports[string(b.Name)], func(p corev1.ServicePort) bool { return p.Port == *b.Port }) {
			found.add("HTTPRoute %s: there is no Service %s with a port %d", h.Name, b.Name, *b.Port)
		}
	}
	for _, p := range r.pods() {
		if c := p.component(); c != "ingress" && c != "up" {
			continue
		}
		allowed := strings.Split(option(p.spec.Containers[0].Args, "--host"), ",")
		for host := range maps.Keys(hosts) {
			if !slices.Contains(allowed, host) {
				found.add("%s: it refuses requests for %s", p.owner, host)
			}
		}
		for name, list := range ports {
			if list[0].Name != "health" && !slices.Contains(allowed, name+"."+namespace+".svc") {
				found.add("%s: it refuses requests for the Service %s", p.owner, name)
			}
		}
	}
	return found
}

// hookFaults checks that what runs before the install needs nothing of it, and that no upgrade creates a store.
func hookFaults(_ *testing.T, r *release) (found faults) {
	later := map[string]bool{}
	for i := range r.objects {
		if r.objects[i].hook == "" {
			later[r.objects[i].String()] = true
		}
	}
	for _, p := range r.pods() {
		c := &p.spec.Containers[0]
		if slices.Contains(c.Args, "init") && (p.owner.hook == "" || strings.Contains(p.owner.hook, "upgrade")) {
			found.add("%s: it is a hook of %q, want install only", p.owner, p.owner.hook)
		}
		if p.owner.kind == "Job" && p.owner.hook == "" {
			found.add("%s: it is no hook, and a Job cannot be changed", p.owner)
		}
		if !strings.HasPrefix(p.owner.hook, "pre-") {
			continue
		}
		needs := []string{"ServiceAccount " + p.spec.ServiceAccountName}
		for _, v := range p.spec.Volumes {
			if v.ConfigMap != nil {
				needs = append(needs, "ConfigMap "+v.ConfigMap.Name)
			}
		}
		for _, need := range needs {
			if later[need] {
				found.add("%s: it runs before %s exists", p.owner, need)
			}
		}
	}
	for i := range r.objects {
		if o := &r.objects[i]; o.hook != "" && o.typed.(metav1.Object).GetAnnotations()["helm.sh/hook-delete-policy"] == "" {
			found.add("%s: it stays forever", o)
		}
	}
	return found
}
