package test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// Wrong values are refused, by a message with the name of the field.
func TestWrongValuesAreRefused(t *testing.T) {
	for text, field := range map[string]string{
		"mode: both":                                                                "mode",
		"repilcas: 3":                                                               "repilcas",
		"ingress: {replicas: 0}":                                                    "ingress/replicas",
		"ingress: {replicas: two}":                                                  "ingress/replicas",
		"ingress: {replica: 2}":                                                     "replica",
		"ingress: {drainDelaySeconds: -1}":                                          "ingress/drainDelaySeconds",
		"ingress: {memory: lots}":                                                   "ingress/memory",
		"ingress: {pathPrefix: penstock/}":                                          "ingress/pathPrefix",
		"ingress: {hosts: [\"*.example.com\"]}":                                     "ingress/hosts",
		"ingress: {oidc: {issuers: [\"http://a\"]}}":                                "ingress/oidc/issuers",
		"ingress: {oidc: {issuers: [\"a=https://a\"]}}":                             "ingress/oidc/audience",
		"ingress: {service: {port: 70000}}":                                         "ingress/service/port",
		"ingress: {extraArgs: [trace-lanes]}":                                       "ingress/extraArgs",
		"ingress: {trustedProxies: [proxy.example.com]}":                            "ingress/trustedProxies",
		"drainer: {graceSeconds: 0}":                                                "drainer/graceSeconds",
		"drainer: {concurrency: 0}":                                                 "drainer/concurrency",
		"drainer: {autoscaling: {type: depth}}":                                     "drainer/autoscaling/type",
		"drainer: {autoscaling: {targetPercent: 120}}":                              "drainer/autoscaling/targetPercent",
		"drainer: {autoscaling: {type: hpa, maxReplicas: 1}}":                       "drainer.autoscaling.maxReplicas",
		"redis: {url: \"redis://:hunter2@redis:6379\"}":                             "redis/url",
		"redis: {url: \"redis+sentinel://a:1/m?sentinel_password=hunter2\"}":        "redis/url",
		"redis: {url: \"redis://:$(REDIS_PASSWORD)@redis:6379\"}":                   "redis.passwordSecret.name",
		"redis: {url: \"mysql://redis:6379\"}":                                      "redis/url",
		"redis: {secret: {name: \"\"}}":                                             "redis.secret.name",
		"redis: {secret: {name: Upper}}":                                            "redis/secret/name",
		"redis: {partitions: 0}":                                                    "redis/partitions",
		"redis: {ports: []}":                                                        "redis/ports",
		"nats: {url: \"nats://user:hunter2@nats:4222\"}":                            "nats/url",
		"nats: {replicas: 2}":                                                       "nats/replicas",
		"queues: [{name: email}]":                                                   "queues",
		"secrets: [{name: A B, secret: {name: a, key: b}, hosts: [c]}]":             "secrets/0/name",
		"secrets: [{name: A, secret: {name: a, key: b}}]":                           "hosts",
		"secrets: [{name: A, secret: {name: a, key: b}, hosts: []}]":                "secrets/0/hosts",
		"secrets: [{name: A, value: hunter2, hosts: [c]}]":                          "value",
		"secrets: [{name: A, secret: {name: a, key: b}, hosts: [\"https://c/x\"]}]": "secrets/0/hosts/0",
		"egressAllow: [\"10.0.0.0/8,11.0.0.0/8\"]":                                  "egressAllow/0",
		"log: {level: loud}":                                                        "log/level",
		"image: {tag: \"a b\"}":                                                     "image/tag",
		"image: {digest: latest}":                                                   "image/digest",
		"up: {storage: {size: big}}":                                                "up/storage/size",
		"up: {storage: {accessModes: [ReadWriteMany]}}":                             "up/storage/accessModes",
		"expose: {ingress: {enabled: true}}":                                        "expose.ingress.host",
		"expose: {httpRoute: {enabled: true}}":                                      "expose.httpRoute.parentRefs",
		"serviceAccount: {create: false}":                                           "serviceAccount.name",
		"topologySpread: {whenUnsatisfiable: Never}":                                "topologySpread/whenUnsatisfiable",
		"monitoring: {serviceMonitor: {interval: often}}":                           "monitoring/serviceMonitor/interval",
		"networkPolicy: {enabled: \"yes\"}":                                         "networkPolicy/enabled",
	} {
		var values map[string]any
		if err := yaml.UnmarshalStrict([]byte(text), &values); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if _, err := template(values, "penstock"); err == nil {
			t.Errorf("%s is accepted", text)
		} else if said := strings.ReplaceAll(err.Error(), "'", ""); !strings.Contains(said, field) {
			t.Errorf("%s is refused without the field %s: %v", text, field, err)
		}
	}
}

// values.yaml and the schema have the same fields.
func TestSchemaHasEveryValue(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(chartDir, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict(b, &values); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(chartDir, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := yaml.UnmarshalStrict(text, &schema); err != nil {
		t.Fatal(err)
	}
	var compare func(at string, values, schema map[string]any)
	compare = func(at string, values, schema map[string]any) {
		properties, closed := schema["properties"].(map[string]any)
		if !closed {
			return // annotations and the like, with any names
		}
		if schema["additionalProperties"] != false {
			t.Errorf("the schema lets %s have other fields", at)
		}
		for name, of := range properties {
			value, has := values[name]
			if !has && name != "global" { // that is Helm's own
				t.Errorf("values.yaml does not have %s%s", at, name)
			}
			if inner, is := value.(map[string]any); is {
				compare(at+name+".", inner, of.(map[string]any))
			}
		}
	}
	compare("", values, schema)
}

var (
	usedValue = regexp.MustCompile(`\.Values\.([A-Za-z.]+)`)
	tableRow  = regexp.MustCompile("(?m)^\\| `([A-Za-z.]+)`")
)

// Templates and README.md name only values that exist.
func TestNamedValuesExist(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(chartDir, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict(b, &values); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(chartDir, "templates", "*"))
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, file := range append(files, filepath.Join(chartDir, "README.md")) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pattern := usedValue
		if filepath.Ext(file) == ".md" {
			pattern = tableRow
		}
		for _, m := range pattern.FindAllStringSubmatch(string(text), -1) {
			named++
			var at any = values
			for _, name := range strings.Split(m[1], ".") {
				inner, is := at.(map[string]any)
				if at, is = inner[name], is && inner[name] != nil; !is {
					t.Errorf("%s names %s, which values.yaml does not have", filepath.Base(file), m[1])
					break
				}
			}
		}
	}
	if named < 50 {
		t.Errorf("only %d names of values were found", named)
	}
}
