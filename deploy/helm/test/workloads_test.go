package test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// nameFaults checks names, namespaces and labels.
func nameFaults(_ *testing.T, r *release) (found faults) {
	seen := map[string]bool{}
	for i := range r.objects {
		o := &r.objects[i]
		meta := o.typed.(metav1.Object)
		if seen[o.String()] {
			found.add("%s occurs twice", o)
		}
		seen[o.String()] = true
		for _, fault := range validation.IsDNS1123Subdomain(o.name) {
			found.add("%s: name: %s", o, fault)
		}
		if _, service := o.typed.(*corev1.Service); service || o.kind == "StatefulSet" {
			for _, fault := range validation.IsDNS1035Label(o.name) {
				found.add("%s: name: %s", o, fault)
			}
		}
		if meta.GetNamespace() != namespace {
			found.add("%s: the namespace is %q", o, meta.GetNamespace())
		}
		for key, value := range meta.GetLabels() {
			for _, fault := range append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...) {
				found.add("%s: label %s: %s", o, key, fault)
			}
		}
		if meta.GetLabels()["app.kubernetes.io/instance"] != "penstock" {
			found.add("%s: it has no label of the release", o)
		}
	}
	return found
}

// securityFaults checks the restricted Pod Security Standard, and what the chart promises beyond it.
func securityFaults(t *testing.T, r *release) (found faults) {
	judge, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	for _, p := range r.pods() {
		if s := policy.AggregateCheckResults(judge.EvaluatePod(level, &metav1.ObjectMeta{}, p.spec)); !s.Allowed {
			found.add("%s: not restricted: %s", p.owner, s.ForbiddenDetail())
		}
		if p.spec.AutomountServiceAccountToken == nil || *p.spec.AutomountServiceAccountToken {
			found.add("%s: its pods get a token for the API of Kubernetes", p.owner)
		}
		for i := range p.spec.Containers {
			c := &p.spec.Containers[i]
			if s := c.SecurityContext; s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
				found.add("%s: the root file system can be written to", p.owner)
			}
			if c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
				found.add("%s: its memory has no request or no limit", p.owner)
			}
			if !c.Resources.Limits.Cpu().IsZero() {
				found.add("%s: a limit of the CPU makes departures late", p.owner)
			}
			for _, e := range c.Env {
				if strings.Contains(e.Value, "hunter2") {
					found.add("%s: %s has a password in plain text", p.owner, e.Name)
				}
			}
		}
	}
	return found
}

// rolloutFaults checks that a rollout loses no slot: a new pod is ready before an old one ends, and SIGKILL comes only
// after everything that the program does after SIGTERM.
func rolloutFaults(t *testing.T, r *release) (found faults) {
	budgets := of[*policyv1.PodDisruptionBudget](r)
	for _, d := range of[*appsv1.Deployment](r) {
		if d.Spec.Replicas != nil && *d.Spec.Replicas < 2 {
			found.add("%s: %d replicas, so that none may fail", d.Name, *d.Spec.Replicas)
		}
		u := d.Spec.Strategy.RollingUpdate
		if u == nil || u.MaxUnavailable == nil || u.MaxUnavailable.String() != "0" || u.MaxSurge.IntValue() < 1 {
			found.add("%s: a rollout ends a pod before the new one is ready: %v", d.Name, u)
		}
		for _, b := range budgets {
			if b.Name == d.Name && (b.Spec.MaxUnavailable == nil || b.Spec.MaxUnavailable.IntValue() < 1) {
				found.add("%s: its budget lets no node be drained", d.Name)
			}
		}
		if len(budgets) == 0 && strings.Contains(r.values, "podDisruptionBudget: {enabled: false}") {
			continue
		}
		if len(budgets) != 2 {
			found.add("%s: there are %d budgets, want 2", d.Name, len(budgets))
		}
	}
	for _, s := range of[*appsv1.StatefulSet](r) {
		if s.Spec.Replicas == nil || *s.Spec.Replicas != 1 {
			found.add("%s: each replica would have a rate of its own", s.Name)
		}
	}
	for _, p := range r.pods() {
		if p.owner.kind == "Job" {
			continue
		}
		c := &p.spec.Containers[0]
		if c.ReadinessProbe == nil || c.ReadinessProbe.HTTPGet.Path != "/readyz" {
			found.add("%s: it is ready without /readyz", p.owner)
		}
		for _, probe := range []*corev1.Probe{c.LivenessProbe, c.StartupProbe} {
			if probe == nil || probe.HTTPGet.Path != "/healthz" {
				found.add("%s: it is restarted by another page than /healthz", p.owner)
			}
		}
		need := needed(t, &p)
		if got := p.spec.TerminationGracePeriodSeconds; got == nil || time.Duration(*got)*time.Second <= need {
			found.add("%s: SIGKILL comes before the %v that it needs", p.owner, need)
		}
	}
	return found
}

// needed returns how long a pod runs on when it is deleted.
func needed(t *testing.T, p *pod) time.Duration {
	t.Helper()
	c := &p.spec.Containers[0]
	flag := func(name string) time.Duration {
		d, err := time.ParseDuration(option(c.Args, name))
		if err != nil {
			t.Fatalf("%s: %s: %v", p.owner, name, err)
		}
		return d
	}
	need := time.Duration(0)
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
		need = time.Duration(c.Lifecycle.PreStop.Sleep.Seconds) * time.Second
	}
	switch p.component() {
	case "ingress":
		return need + flag("--drain-delay") + flag("--grace")
	case "drainer":
		return need + flag("--grace") + 10*time.Second // healthGrace of internal/app
	case "up":
		return need + 30*time.Second // drain.Options has this grace; there is no flag
	}
	t.Fatalf("%s: unknown component %s", p.owner, p.component())
	return 0
}

// option returns the value of --name=value, the last one.
func option(args []string, name string) (value string) {
	for _, arg := range args {
		if v, is := strings.CutPrefix(arg, name+"="); is {
			value = v
		}
	}
	return value
}

// memoryFaults checks limits of memory against what docs/configuration.md says that the programs use.
func memoryFaults(t *testing.T, r *release) (found faults) {
	const mebi = 1 << 20
	for _, p := range r.pods() {
		c := &p.spec.Containers[0]
		need := int64(0)
		switch p.component() {
		case "ingress":
			memory := resource.MustParse(strings.TrimSuffix(option(c.Args, "--memory"), "B"))
			need = memory.Value() + 256*mebi
		case "drainer":
			concurrency := resource.MustParse(option(c.Args, "--concurrency"))
			need = concurrency.Value()*4*mebi + 256*mebi
		}
		if limit := c.Resources.Limits.Memory().Value(); limit < need {
			found.add("%s: it may use %d bytes of memory, and its limit is %d", p.owner, need, limit)
		}
	}
	return found
}
