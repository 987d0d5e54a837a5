package deploytest

const redisSetting = `  PENSTOCK_REDIS: "redis://:${PENSTOCK_REDIS_PASSWORD:?make one as deploy/README.md says}` +
	`@redis:6379/0"` + "\n"

// brokenServices are faults of what runs the programs and their servers.
var brokenServices = []breakage{
	{"compose", "compose.yaml", "services:\n", "servises:\n", "servises"},
	{"compose", "compose.yaml", "    networks: [front]\n", "    networks: [font]\n", "undefined network font"},
	{"compose", "compose.yaml", "retries: 3", "retrys: 3", "retrys"},
	{"compose", "compose.yaml", "  nats-3:\n", "  nats-4:\n", "undefined service \"nats-3\""},
	{"compose", "compose.yaml", "  grafana:\n    image", "  graph:\n    image", "there is no grafana"},
	{"provision", "compose.yaml", "./grafana:/etc", "./prometheus:/etc", "/deploy/grafana is not mounted"},
	{"provision", "compose.yaml", `GF_AUTH_BASIC_ENABLED: "false"`, `GF_AUTH_BASIC_ENABLED: "true"`, "a known password"},
	{
		"provision", "grafana/provisioning/datasources/prometheus.yaml", "http://prometheus:", "http://prom:",
		"which is no service",
	},
	{
		"provision", "grafana/provisioning/dashboards/penstock.yaml", "/etc/grafana/dashboards", "/dashboards",
		"/deploy/grafana is not mounted at /dashboards",
	},
	{"compose", "compose.yaml", "replicas: 2", "replicas: 1", "drainer: 1 replicas, want 2"},
	{"compose", "compose.yaml", `"127.0.0.1:9090:9090"`, `"9090:9090"`, "prometheus: publishes 9090 on"},
	{
		"compose", "compose.yaml", `volumes: ["redis:/data"]`,
		`volumes: ["redis:/data"]` + "\n    ports: [\"127.0.0.1:6379:6379\"]", "redis: publishes 6379",
	},
	{
		"compose", "compose.yaml", "store: {internal: true}", "store: {internal: false}",
		"redis: is on store, which is not internal",
	},
	{"compose", "compose.yaml", "nats-2:/data", "nats-1:/data", "share the volume nats-1"},
	{"compose", "compose.yaml", `    volumes: ["redis:/data"]` + "\n", "", "redis: keeps what it has in no named volume"},
	{"compose", "compose.yaml", "file: nats.conf", "file: nats.cnf", "there is no nats.cnf"},
	{
		"compose", "compose.yaml", "${PENSTOCK_INIT:-false}", "${PENSTOCK_INIT:-true}",
		`with "", 1 services may make the store, want 0`,
	},
	{
		"compose", "compose.yaml", "  PENSTOCK_LOG_FORMAT: json", "  PENSTOCK_INIT: ${PENSTOCK_INIT:-false}",
		"3 services may make the store, want 1",
	},

	{"services", "compose.yaml", "redis:7.4.11-alpine3.21", "redis:7", `the image "redis:7" is not pinned`},
	{"services", "compose.yaml", "prom/prometheus:v3.15.0", "prom/prometheus", "is not pinned"},
	{"services", "compose.yaml", "restart: unless-stopped", "restart: always", `restart is "always"`},
	{"services", "compose.yaml", "read_only: true", "read_only: false", "can be written to"},
	{"services", "compose.yaml", "cap_drop: [ALL]", "cap_drop: [CHOWN]", "it has capabilities"},
	{"services", "compose.yaml", "no-new-privileges:true", "no-new-privileges:false", "it may get privileges"},
	{
		"services", "compose.yaml", "test: [CMD, redis-cli, -e, ping]", "test: redis-cli ping",
		"redis: it has no health check, or one that needs a shell",
	},
	{
		"services", "compose.yaml", "limits: {cpus: \"2\", memory: 2G}", "limits: {cpus: \"2\"}",
		"redis: its memory has no limit",
	},
	{
		"services", "compose.yaml", "redis: {condition: service_healthy}", "redis: {condition: service_started}",
		"does not wait until redis is healthy",
	},
	{
		"services", "compose.yaml", "dockerfile: deploy/Dockerfile", "dockerfile: Dockerfile",
		"it is built from /Dockerfile",
	},
	{"services", "compose.yaml", "command: [drainer, ", "command: [drain, ", `"drain" is no program`},
	{"services", "compose.yaml", "8081\", --insecure]", "8081\", --unsafe]", "unknown flag --unsafe"},
	{"services", "compose.yaml", "PENSTOCK_LOG_FORMAT: json", "PENSTOCK_LOG_FORMAT: jsn", "must be one of"},
	{
		"services", "compose.yaml", "PENSTOCK_LOG_FORMAT: json", "PENSTOCK_LOGFORMAT: json",
		"does not know PENSTOCK_LOGFORMAT",
	},
	{"services", "compose.yaml", redisSetting, "", "missing flags: --redis"},
	{"services", "compose.yaml", "@redis:6379/0", "@radis:6379/0", `names "radis", which is no service`},
	{
		"services", "compose.yaml", "      - --requirepass # Redis hides it from the process list\n" +
			"      - ${PENSTOCK_REDIS_PASSWORD}\n", "", "redis: it has no password",
	},
	{
		"services", "compose.yaml", `REDISCLI_AUTH: "${PENSTOCK_REDIS_PASSWORD}"`, `REDISCLI_AUTH: ""`,
		"redis: its health check has no password",
	},
	{
		"services", "compose.yaml", "${PENSTOCK_REDIS_PASSWORD:?make one as deploy/README.md says}",
		"${PENSTOCK_REDIS_PASSWORD}", "starts without a password",
	},
	{"services", "compose.yaml", "nats://nats-3:4222", "nats://nats-4:4222", `names "nats-4", which is no service`},
	{
		"services", "compose.yaml", "stop_grace_period: 60s", "stop_grace_period: 10s",
		"drainer: stop_grace_period 10s is not above its grace of 30s",
	},
	{
		"services", "compose.yaml", "8081/readyz", "8080/readyz",
		"drainer: it listens on 0.0.0.0:8081, and its health check is not",
	},
	{
		"services", "compose.yaml", "8082/readyz", "8080/readyz",
		"ingress-1: it listens on 0.0.0.0:8080, and its health check is not",
	},
	{
		"services", "compose.yaml", "stop_grace_period: 20s", "stop_grace_period: 15s",
		"stop_grace_period 15s is not above its grace of 15s",
	},
	{
		"services", "compose.yaml", `"127.0.0.1:8081:8080"`, `"127.0.0.1:8081:8081"`,
		"ingress-2: publishes 8081 and listens on 0.0.0.0:8080",
	},
	{"services", "compose.yaml", "      redis: {condition: service_healthy}\n", "", `does not wait for "redis"`},

	{"dockerfile", "Dockerfile", "COPY . .", "COPI . .", "unknown instruction: COPI"},
	{"dockerfile", "Dockerfile", "golang:1.26.8-alpine3.24", "golang:alpine", "golang:alpine is not pinned"},
	{"dockerfile", "Dockerfile", "golang:1.26.8-alpine3.24", "golang:1.20.1-alpine3.24", "older than go.mod's"},
	{"dockerfile", "Dockerfile", "FROM scratch", "FROM alpine:3.24.1", "want scratch"},
	{"dockerfile", "Dockerfile", "USER 65532:65532", "USER root", `it ends as user "root"`},
	{"dockerfile", "Dockerfile", "USER 65532:65532", "USER 0:65532", `it ends as user "0:65532"`},
	{"dockerfile", "Dockerfile", "USER 65532:65532\n", "", `it ends as user ""`},
	{"dockerfile", "Dockerfile", "ARG TARGETOS\n", "ARG NPM_TOKEN\n", "a secret in an image"},
	{"dockerfile", "Dockerfile", "COPY . .", "ADD . .", "COPY does not"},
	{"dockerfile", "Dockerfile", `CMD ["penstock", "--help"]`, "CMD penstock --help", "needs a shell"},
	{
		"dockerfile", "Dockerfile", `CMD ["penstock", "--help"]`, "HEALTHCHECK CMD probe\nCMD [\"penstock\"]",
		"needs a shell",
	},
	{"dockerfile", "Dockerfile", "CGO_ENABLED=0 ", "", "does without CGO_ENABLED=0"},
	{"dockerfile", "Dockerfile", "-trimpath ", "", "does without  -trimpath"},
	{"dockerfile", "Dockerfile", "ops.linkedVersion", "ops.LinkedVersion", "does without -ldflags"},
	{"dockerfile", "Dockerfile", " ./cmd/penstock", "", "./cmd/penstock is not built"},
	{"dockerfile", "Dockerfile", "./deploy/probe", "./deploy/prober", "./deploy/prober is no program"},
	{"dockerfile", "Dockerfile.dockerignore", "\n.git\n", "\n", "lets .git or data into"},

	{"nats", "nats.conf", "jetstream {", "jetstraem {", "jetstraem"},
	{"nats", "nats.conf", "  store_dir: /data", "  store_dri: /data", "store_dri"},
	{"nats", "nats.conf", "store_dir: /data", "store_dir: /dat", "has no volume at store_dir /dat"},
	{"nats", "nats.conf", "nats://nats-3:6222", "nats://nats-4:6222", "has routes to [nats-1 nats-2 nats-4]"},
	{"nats", "nats.conf", "nats://nats-3:6222", "nats://nats-3:6223", "goes to another port"},
	{"nats", "nats.conf", "sync_interval: always", "sync_interval: 1m", "sync always false"},
	{"nats", "nats.conf", "max_payload: 2MB", "max_payload: 1MB", "below the"},
	{"nats", "nats.conf", "0.0.0.0:8222", "0.0.0.0:8223", "its health check is not of http://127.0.0.1:8223/"},
	{"nats", "compose.yaml", "NATS_NAME: nats-2", "NATS_NAME: nats-1", `nats-2 is called "nats-1"`},
	{"nats", "compose.yaml", "GOMEMLIMIT: 400MiB}", "X: y}", "has no GOMEMLIMIT"},
	{
		"nats", "compose.yaml", `PENSTOCK_NATS_REPLICAS: "3"`, `PENSTOCK_NATS_REPLICAS: "5"`,
		`asks for "5" replicas of 3 servers`,
	},

	{
		"units", "systemd/penstock-up.service", "ProtectSystem=strict", "ProtectSystm=strict",
		"ProtectSystm is no directive",
	},
	{"units", "systemd/penstock-up.service", "[Service]", "[Srvice]", "section [Srvice] is unknown"},
	{"units", "systemd/penstock-up.service", "Type=exec\n", "exec\n", `"exec" is no directive`},
	{"units", "systemd/penstock-up.service", "Type=exec\n", "Type=exec \\\n", "goes on"},
	{"units", "systemd/penstock-drainer@.service", "NoNewPrivileges=yes\n", "", "NoNewPrivileges is not set"},
	{"units", "systemd/penstock-drainer@.service", "CapabilityBoundingSet=\n", "", "CapabilityBoundingSet is not set"},
	{
		"units", "systemd/penstock-ingress@.service", "ProtectSystem=strict", "ProtectSystem=full",
		`ProtectSystem is "full", want "strict"`,
	},
	{"units", "systemd/penstock-ingress@.service", "DynamicUser=yes", "DynamicUser=no", `DynamicUser is "no"`},
	{"units", "systemd/penstock-ingress@.service", "Restart=on-failure", "Restart=no", `Restart is "no"`},
	{"units", "systemd/penstock-ingress@.service", "WantedBy=multi-user.target", "WantedBy=", "nothing wants it"},
	{
		"units", "systemd/penstock-ingress@.service", "/opt/penstock/bin/ingress", "/usr/bin/ingress",
		"want one program in /opt/penstock/bin/",
	},
	{
		"units", "systemd/penstock-ingress@.service", "/opt/penstock/bin/ingress", "/opt/penstock/bin/ingres",
		`"ingres" is no program`,
	},
	{"units", "systemd/penstock-up.service", "--data=", "--date=", "unknown flag --date"},
	{"units", "systemd/penstock-up.service", "StateDirectory=penstock\n", "", "StateDirectory and what ExecStart does"},
	{
		"units", "systemd/penstock-up.service", "EnvironmentFile=-/etc/penstock/up.env",
		"Environment=PENSTOCK_LISTEN=127.0.0.1:%i", "only a template has instances",
	},
	{
		"units", "systemd/penstock-drainer@.service", "Environment=PENSTOCK_LISTEN=", "Environment=PENSTOCK_LISTN=",
		"does not know PENSTOCK_LISTN",
	},
	{
		"units", "systemd/penstock-drainer@.service", "TimeoutStopSec=60s", "TimeoutStopSec=30s",
		"is not above its grace of 30s",
	},
	{
		"units", "systemd/penstock-drainer@.service", "=/etc/penstock/penstock.env", "=/etc/penstock.env",
		"is not in /etc/penstock",
	},
	{
		"units", "systemd/penstock.env", "PENSTOCK_REDIS=", "PENSTOCK_CONCURRENCY=5\nPENSTOCK_REDIS=",
		"ingress does not know PENSTOCK_CONCURRENCY",
	},
	{"units", "systemd/penstock.env", "PENSTOCK_REDIS=", "REDIS=", "want PENSTOCK_NAME=VALUE"},
	{"units", "systemd/tls.conf", "PENSTOCK_TLS_CERT=", "PENSTOCK_CERT=", "does not know PENSTOCK_CERT"},
	{
		"units", "systemd/tls.conf", "LoadCredential=tls.key:", "LoadCredential=key:",
		"PENSTOCK_TLS_KEY=%d/tls.key is not loaded",
	},
	{"units", "systemd/nats-creds.conf", "[Service]", "Service", "is no directive in a section"},

	{"systemd", "systemd/penstock-up.service", "ProtectSystem=strict", "ProtectSystem=strikt", "systemd-analyze verify"},
	{"systemd", "systemd/penstock-drainer@.service", "bin/drainer", "bin/drain", "drain is not executable"},
	{"systemd", "systemd/penstock-ingress@.service", "RestartSec=2s", "RestartSeconds=2s", "Unknown key"},
	{"systemd", "systemd/tls.conf", "LoadCredential=tls.crt:", "LoadCredentials=tls.crt:", "Unknown key"},
	{"systemd", "systemd/penstock-up.service", "SystemCallFilter=", "# ", "systemd-analyze security"},
}
