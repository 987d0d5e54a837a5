package test

import (
	"strings"
	"testing"
)

// breakage is a fault in a rendered object, and what a check must say about it.
type breakage struct {
	check, values string
	object        string // kind and name
	old, new      string
	want          string
}

const (
	all      = "everything"
	ofOurs   = "Deployment queues-ingress"
	ofDrain  = "Deployment queues-drainer"
	ofKEDA   = "ScaledObject penstock-drainer"
	ofUp     = "StatefulSet penstock-up"
	ofPolicy = "NetworkPolicy queues-drainer"
)

var breakages = []breakage{
	{"names", all, ofOurs, "name: queues-ingress\n", "name: queues_ingress\n", "name: a lowercase RFC 1123"},
	{"names", all, "Service queues-ingress", "namespace: queues", "namespace: default", `the namespace is "default"`},
	{"names", all, "Service queues-ingress", "instance: penstock", "instance: other", "no label of the release"},
	{"names", all, ofDrain, "name: queues-drainer\n", "name: queues-ingress\n", "occurs twice"},

	{"security", all, ofOurs, "runAsNonRoot: true", "runAsNonRoot: false", "not restricted: runAsNonRoot"},
	{"security", all, ofOurs, "seccompProfile: {type: RuntimeDefault}", "", "not restricted: seccompProfile"},
	{"security", all, ofOurs, "drop: [ALL]", "drop: [CHOWN]", "unrestricted capabilities"},
	{"security", all, "Job queues-apply", "allowPrivilegeEscalation: false", "", "allowPrivilegeEscalation"},
	{"security", all, ofDrain, "readOnlyRootFilesystem: true", "", "can be written to"},
	{"security", all, ofDrain, "automountServiceAccountToken: false", "", "token for the API of Kubernetes"},
	{"security", all, ofDrain, "limits:\n", "limits:\n              cpu: 1\n", "makes departures late"},
	{"security", all, ofDrain, "memory: 1Gi", "ephemeral-storage: 1Gi", "its memory has no request or no limit"},
	{"security", all, ofDrain, "$(REDIS_PASSWORD)", "hunter2", "a password in plain text"},

	{"rollout", all, ofOurs, "replicas: 3", "replicas: 1", "none may fail"},
	{"rollout", all, ofOurs, "maxUnavailable: 0", "maxUnavailable: 1", "before the new one is ready"},
	{"rollout", all, ofDrain, "maxSurge: 1", "maxSurge: 0", "before the new one is ready"},
	{"rollout", all, ofOurs, "PeriodSeconds: 60", "PeriodSeconds: 45", "SIGKILL comes before the 45s"},
	{"rollout", all, ofOurs, "--drain-delay=20s", "--drain-delay=40s", "SIGKILL comes before the 1m5s"},
	{"rollout", all, ofOurs, "sleep: {seconds: 10}", "sleep: {seconds: 30}", "SIGKILL comes before the 1m5s"},
	{"rollout", all, ofDrain, "--grace=120s", "--grace=140s", "SIGKILL comes before the 2m30s"},
	{"rollout", all, ofDrain, "/readyz", "/healthz", "ready without /readyz"},
	{"rollout", all, ofDrain, "/healthz", "/readyz", "restarted by another page"},
	{"rollout", all, "PodDisruptionBudget queues-drainer", "maxUnavailable: 1", "maxUnavailable: 0", "no node be drained"},
	{"rollout", "up", ofUp, "replicas: 1", "replicas: 2", "a rate of its own"},
	{"rollout", "up", ofUp, "PeriodSeconds: 60", "PeriodSeconds: 30", "SIGKILL comes before the 30s"},

	{"references", all, ofOurs, "name: queues-allow", "name: queues-allowed", "there is no ConfigMap queues-allowed"},
	{"references", all, ofOurs, `"redis-ca"`, `"redis-cert"`, `refers to the Secret "redis-cert"`},
	{"references", all, "Job queues-apply", `"penstock-token"`, `"token-penstock"`, `the Secret "token-penstock"`},
	{"references", all, ofDrain, "serviceAccountName: queues", "serviceAccountName: queue", "no ServiceAccount queue"},
	{"references", all, ofDrain, "name: POD_NAME", "name: PENSTOCK_REDIS", "is set twice"},

	{"mounts", all, ofOurs, "- {name: tls, mountPath", "- {name: ssl, mountPath", "no volume ssl"},
	{"mounts", all, ofOurs, "/etc/penstock/tls,", "/etc/penstock/ssl,", "nothing is mounted for --tls-cert="},
	{"mounts", all, ofOurs, "tls, readOnly: true", "tls, readOnly: false", "can be written to"},
	{"mounts", all, ofOurs, "- configMap: {name: queues-allow}", "- secret: {name: provider-a}", "the secret provider-a"},
	{"mounts", all, ofDrain, "mountPath: /etc/penstock/redis,", "mountPath: /etc/penstock/tls,", "two volumes"},

	{"services", all, "Service queues-ingress", "component: ingress", "component: egress", "selects 0 kinds of pods"},
	{"services", all, "Service queues-ingress", "targetPort: api", "targetPort: http", "there is no port http"},
	{"services", all, "Service queues-drainer-metrics", "clusterIP: None", "", "does not name every pod"},
	{"services", all, ofOurs, "scheme: HTTPS", "scheme: HTTP", "is probed at health with HTTP"},
	{"services", all, ofOurs, "port: health,", "port: metrics,", "is probed at metrics"},
	{"services", all, ofOurs, "--listen=:8080", "--listen=:8083", `--listen is ":8083"`},
	{"services", all, ofDrain, "--listen=:8081", "--listen=:8080", `--listen is ":8080"`},
	{"services", all, ofOurs, "queues.example.com", "example.com", "refuses requests for queues.example.com"},
	{"services", all, ofOurs, ",queues.example.org", "", "refuses requests for queues.example.org"},
	{"services", all, ofOurs, "queues-ingress.queues.svc,", "", "for the Service queues-ingress"},
	{"services", all, "Ingress queues", "name: https", "name: http", "with a port http"},
	{"services", all, "HTTPRoute queues", "port: 443", "port: 80", "with a port 80"},
	{"services", all, "PodDisruptionBudget queues-drainer", "component: drainer", "component: d", "selects no pods"},

	{"policies", all, ofPolicy, "component: drainer", "component: d", "0 policies cover it"},
	{"policies", all, ofPolicy, "[Ingress, Egress]", "[Ingress]", "a direction is open"},
	{"policies", all, ofPolicy, "port: health", "port: healthy", "there is no port healthy"},
	{"policies", all, ofPolicy, "port: 26379", "port: 26380", "out to the port 26379"},
	{"policies", all, ofPolicy, "port: 4222", "port: 4223", "out to the port 4222"},
	{"policies", all, ofPolicy, "port: 53", "port: 54", "out to the port 53"},
	{"policies", all, ofPolicy, "except: [0.0.0.0/8,", "except: [1.0.0.0/8,", "from targets at 1.1.1.1"},
	{"policies", all, ofPolicy, `cidr: "2000::/3"`, `cidr: "fc00::/7"`, "from targets at 2606:4700::1111"},
	{"policies", all, ofPolicy, "192.168.0.0/16", "192.168.0.0/24", "it opens 192.168.7.9, which"},
	{"policies", all, ofPolicy, `{cidr: "10.1.0.0/16"}`, `{cidr: "10.9.0.0/16"}`, "from targets at 10.1.2.3"},
	{"policies", all, "NetworkPolicy queues-ingress", "port: api", "port: health", "nobody can reach the port api"},

	{"programs", all, ofOurs, "--queue-labels", "--queue-label", "unknown flag --queue-label"},
	{"programs", all, ofOurs, "--max-connections=", "--max-connections=x", "--max-connections"},
	{"programs", all, ofDrain, "--concurrency=", "--concurrency=-", "--concurrency"},
	{"programs", all, ofDrain, "command: [drainer]", "command: [drain]", `"drain" is no program`},
	{"programs", all, "Job queues-init", "--partitions", "--parts", "unknown flag --parts"},
	{"programs", all, "Job queues-apply", "queues.yaml", "queue.yaml", "no such file"},
	{"programs", all, "ConfigMap queues-queues", "rate: 14/s", "rate: 14/y", "rate"},
	{"programs", all, "ConfigMap queues-allow", "api.example.com", "https://api.example.com", "API_TOKEN.allow"},
	{"programs", "up", ofUp, "--data=", "--date=", "unknown flag --date"},

	{"queues", all, "ConfigMap queues-allow", "api.example.com", "example.com", "may not be sent to api.example.com"},
	{"queues", all, "ConfigMap queues-allow", "API_TOKEN.allow", "TOKEN.allow", "may not be sent anywhere yet"},
	{"queues", all, ofDrain, "path: \"API_TOKEN\"", "path: \"TOKEN\"", "cannot read the secret API_TOKEN"},
	{"queues", "secrets", "Deployment penstock-ingress", "10.1.0.0/16", "10.2.0.0/16", "10.1.0.7"},
	{"queues", all, "ConfigMap queues-queues", "name: email", "name: EMAIL", "name"},

	{"memory", all, ofOurs, "--memory=512MiB", "--memory=1GiB", "it may use 1342177280 bytes"},
	{"memory", all, ofDrain, "--concurrency=128", "--concurrency=256", "it may use 1342177280 bytes"},

	{"monitoring", all, "ServiceMonitor queues-drainer", "port: health", "port: metrics", "has no port metrics"},
	{"monitoring", all, "ServiceMonitor queues-drainer", "component: drainer", "component: d", "nothing scrapes it"},
	{"monitoring", all, "ServiceMonitor queues-drainer", "penstock-drainer", "drainer", "do not know its job"},
	{"monitoring", all, "ServiceMonitor queues-drainer", "scheme: https", "scheme: http", "scraped with the scheme"},
	{"monitoring", all, "PrometheusRule queues-alerts", "severity: page", "severity: pages", "not those of"},
	{"monitoring", all, "ConfigMap queues-dashboard-store", "penstock_store", "penstock_stores", "store.json is not that"},

	{"scaling", "keda", ofKEDA, "handlers_in_use", "jobs", "scaled by depth"},
	{"scaling", "keda", ofKEDA, "handlers_in_use", "handlers_used", "not scaled by busy handlers"},
	{"scaling", "keda", ofKEDA, `threshold: "32"`, `threshold: "65"`, "waits for 65 busy handlers"},
	{"scaling", "keda", ofKEDA, "minReplicaCount: 3", "minReplicaCount: 1", "it leaves 1 drainers"},
	{"scaling", "hpa", "HorizontalPodAutoscaler penstock-drainer", "drainer_busy", "busy", "nothing records"},
	{"scaling", "hpa", "HorizontalPodAutoscaler penstock-drainer", "Replicas: 2", "Replicas: 1", "it leaves 1 drainers"},
	{"scaling", "hpa", "PrometheusRule penstock-autoscaling", "free_handlers", "idle_handlers", "does not know"},
	{"scaling", "hpa", "Deployment penstock-drainer", "revisionHistoryLimit: 5", "replicas: 2", "is scaled to"},

	{"hooks", all, "Job queues-init", "hook: pre-install", "hook: pre-install,pre-upgrade", "want install only"},
	{"hooks", all, "Job queues-apply", "helm.sh/hook: post-install,post-upgrade", "a: b", "it is no hook"},
	{"hooks", all, "Job queues-token", "hook: post-install", "hook: pre-install", "before ServiceAccount queues exists"},
	{"hooks", all, "Job queues-init", "hook-delete-policy", "hook-deletes", "it stays forever"},
}

// Each check reports the fault that is made for it.
func TestBroken(t *testing.T) {
	for _, b := range breakages {
		t.Run(b.check+"/"+b.want, func(t *testing.T) {
			whole := install(t, "values/"+b.values+".yaml")
			kind, name, _ := strings.Cut(b.object, " ")
			o := whole.find(t, kind, name)
			text := strings.ReplaceAll(o.text, b.old, b.new)
			if text == o.text {
				t.Fatalf("%s does not have %q: break something else\n%s", o, b.old, o.text)
			}
			broken, err := decode(text)
			if err != nil {
				t.Fatal(err)
			}
			*o = broken
			said := strings.Join(checks[b.check](t, whole), "\n")
			if !strings.Contains(said, b.want) {
				t.Errorf("with %q for %q in %s the check does not say %q:\n%s", b.new, b.old, b.object, b.want, said)
			}
		})
	}
}

// Unknown and repeated fields, wrong types and unknown kinds are not decoded.
func TestStrict(t *testing.T) {
	for text, want := range map[string]string{
		"apiVersion: v1\nkind: ConfigMap\ndatum: {}\n":                              `unknown field "datum"`,
		"apiVersion: v1\nkind: ConfigMap\nData: {}\n":                               `unknown field "Data"`,
		"apiVersion: v1\nkind: ConfigMap\ndata: {a: b}\ndata: {}\n":                 `"data" already set`,
		"apiVersion: v1\nkind: Service\nspec: {ports: [{port: http}]}\n":            "cannot unmarshal string",
		"apiVersion: apps/v1\nkind: Deployment\nspec: {replica: 2}\n":               `unknown field "spec.replica"`,
		"apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nspec: {maxReplica: 2}\n": `unknown field "spec.maxReplica"`,
		"apiVersion: extensions/v1beta1\nkind: Ingress\n":                           "no type is known",
	} {
		if _, err := decode(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
