{{/* Flags, environment and files of the programs. Arguments are lists of the root context and the component. */}}

{{- define "penstock.hasNATS" -}}
{{- if or .Values.nats.url .Values.nats.secret.name -}}true{{- end -}}
{{- end -}}

{{/* Flags that all serving programs have. */}}
{{- define "penstock.commonArgs" -}}
{{- $v := (index . 0).Values -}}
{{- if $v.tls.secretName }}
- --tls-cert=/etc/penstock/tls/tls.crt
- --tls-key=/etc/penstock/tls/tls.key
{{- else }}
- --insecure
{{- end }}
{{- with $v.egressAllow }}
- {{ printf "--egress-allow=%s" (join "," .) | quote }}
{{- end }}
{{- if $v.secrets }}
- --secrets-dir=/etc/penstock/secrets
{{- end }}
- --log-level={{ $v.log.level }}
{{- if $v.log.decisions }}
- --decision-log
{{- end }}
{{- end -}}

{{/* Flags of ingress and drainer: the stores. */}}
{{- define "penstock.storeArgs" -}}
{{- $root := index . 0 -}}
{{- $v := $root.Values -}}
- --partitions={{ int $v.redis.partitions }}
- --queue-labels={{ int $v.queueLabels }}
- --log-format={{ $v.log.format }}
{{- if include "penstock.hasNATS" $root }}
- --nats-replicas={{ int $v.nats.replicas }}
- {{ printf "--nats-prefix=%s" $v.nats.prefix | quote }}
- {{ printf "--nats-max-bytes=%s" $v.nats.maxBytes | quote }}
{{- if $v.nats.credsSecret.name }}
- --nats-creds=/etc/penstock/nats-creds/nats.creds
{{- end }}
{{- if $v.nats.tls.secretName }}
- --nats-tls-ca=/etc/penstock/nats-tls/ca.crt
{{- if $v.nats.tls.clientCert }}
- --nats-tls-cert=/etc/penstock/nats-tls/tls.crt
- --nats-tls-key=/etc/penstock/nats-tls/tls.key
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Flags of the API: ingress and up. */}}
{{- define "penstock.apiArgs" -}}
{{- $root := index . 0 -}}
{{- $v := $root.Values -}}
{{- $i := $v.ingress -}}
{{- $service := include "penstock.service" $root -}}
{{- $ns := $root.Release.Namespace -}}
{{- $hosts := list $service (printf "%s.%s" $service $ns) (printf "%s.%s.svc" $service $ns) -}}
{{- $hosts = append $hosts (printf "%s.%s.svc.cluster.local" $service $ns) -}}
{{- if and $v.expose.ingress.enabled $v.expose.ingress.host }}{{ $hosts = append $hosts $v.expose.ingress.host }}{{ end -}}
{{- if $v.expose.httpRoute.enabled }}{{ $hosts = concat $hosts $v.expose.httpRoute.hostnames }}{{ end -}}
- --listen=:8080
- --health-listen=:8082
- {{ printf "--host=%s" (concat $hosts $i.hosts | uniq | join ",") | quote }}
- {{ printf "--memory=%s" $i.memory | quote }}
{{- if $v.queues }}
- --config=/etc/penstock/queues/queues.yaml
{{- end }}
{{- with $i.pathPrefix }}
- {{ printf "--path-prefix=%s" . | quote }}
{{- end }}
{{- if not $i.console }}
- --no-console
{{- end }}
{{- with $i.trustedProxies }}
- {{ printf "--trusted-proxies=%s" (join "," .) | quote }}
{{- end }}
{{- if $i.accessLog }}
- --access-log
{{- end }}
{{- if $i.oidc.issuers }}
{{- range $i.oidc.issuers }}
- {{ printf "--oidc-issuer=%s" . | quote }}
{{- end }}
- {{ printf "--oidc-audience=%s" $i.oidc.audience | quote }}
- {{ printf "--oidc-claim=%s" $i.oidc.claim | quote }}
{{- end }}
{{- end -}}

{{/* The URL of Redis, with passwords from Secrets only. The component is ingress, drainer or init. */}}
{{- define "penstock.redisEnv" -}}
{{- $root := index . 0 -}}
{{- $r := $root.Values.redis -}}
{{- if $r.url }}
{{- if and (contains "$(REDIS_PASSWORD)" $r.url) (not $r.passwordSecret.name) }}
{{- fail "redis.url has $(REDIS_PASSWORD), but redis.passwordSecret.name is empty: name the Secret with the password" }}
{{- end }}
{{- if and (contains "$(SENTINEL_PASSWORD)" $r.url) (not $r.sentinelPasswordSecret.name) }}
{{- fail "redis.url has $(SENTINEL_PASSWORD), but redis.sentinelPasswordSecret.name is empty: name the Secret with the password" }}
{{- end }}
{{- with $r.passwordSecret }}{{ if .name }}
- name: REDIS_PASSWORD
  valueFrom:
    secretKeyRef: {name: {{ .name | quote }}, key: {{ .key | quote }}}
{{- end }}{{ end }}
{{- with $r.sentinelPasswordSecret }}{{ if .name }}
- name: SENTINEL_PASSWORD
  valueFrom:
    secretKeyRef: {name: {{ .name | quote }}, key: {{ .key | quote }}}
{{- end }}{{ end }}
- name: PENSTOCK_REDIS
  value: {{ $r.url | quote }}
{{- else }}
- name: PENSTOCK_REDIS
  valueFrom:
    secretKeyRef:
      name: {{ required "redis.secret.name and redis.url are empty: name the Secret with the URL of Redis" $r.secret.name | quote }}
      key: {{ index $r.secret (printf "%sKey" (index . 1)) | quote }}
{{- end }}
{{- end -}}

{{- define "penstock.natsEnv" -}}
{{- $n := (index . 0).Values.nats -}}
{{- if $n.url }}
- name: PENSTOCK_NATS
  value: {{ $n.url | quote }}
{{- else if $n.secret.name }}
- name: PENSTOCK_NATS
  valueFrom:
    secretKeyRef: {name: {{ $n.secret.name | quote }}, key: {{ index $n.secret (printf "%sKey" (index . 1)) | quote }}}
{{- end }}
{{- end -}}

{{/* Volumes of a component: ingress, drainer, up or init. An ingress gets the .allow files of secrets, not the secrets. */}}
{{- define "penstock.volumes" -}}
{{- $root := index . 0 -}}
{{- $c := index . 1 -}}
{{- $v := $root.Values -}}
{{- $name := include "penstock.fullname" $root -}}
{{- $stores := ne $c "up" -}}
{{- $serves := ne $c "init" -}}
{{- if and $v.tls.secretName $serves }}
- name: tls
  secret: {secretName: {{ $v.tls.secretName | quote }}, defaultMode: 0440}
{{- end }}
{{- if and $v.redis.tlsSecret $stores }}
- name: redis-tls
  secret: {secretName: {{ $v.redis.tlsSecret | quote }}, defaultMode: 0440}
{{- end }}
{{- if and $stores $serves (include "penstock.hasNATS" $root) }}
{{- with $v.nats.credsSecret }}{{ if .name }}
- name: nats-creds
  secret:
    secretName: {{ .name | quote }}
    defaultMode: 0440
    items: [{key: {{ index . (printf "%sKey" $c) | quote }}, path: nats.creds}]
{{- end }}{{ end }}
{{- with $v.nats.tls.secretName }}
- name: nats-tls
  secret: {secretName: {{ . | quote }}, defaultMode: 0440}
{{- end }}
{{- end }}
{{- if and $v.queues (or (eq $c "ingress") (eq $c "up")) }}
- name: queues
  configMap: {name: {{ $name }}-queues}
{{- end }}
{{- if and $v.secrets $serves }}
- name: secrets
  projected:
    defaultMode: 0440
    sources:
      - configMap: {name: {{ $name }}-allow}
      {{- if ne $c "ingress" }}
      {{- range $v.secrets }}
      - secret:
          name: {{ .secret.name | quote }}
          items: [{key: {{ .secret.key | quote }}, path: {{ .name | quote }}}]
      {{- end }}
      {{- end }}
{{- end }}
{{- if $serves }}
{{- with (index $v $c).extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "penstock.volumeMounts" -}}
{{- $root := index . 0 -}}
{{- $c := index . 1 -}}
{{- $v := $root.Values -}}
{{- $stores := ne $c "up" -}}
{{- $serves := ne $c "init" -}}
{{- if and $v.tls.secretName $serves }}
- {name: tls, mountPath: /etc/penstock/tls, readOnly: true}
{{- end }}
{{- if and $v.redis.tlsSecret $stores }}
- {name: redis-tls, mountPath: /etc/penstock/redis, readOnly: true}
{{- end }}
{{- if and $stores $serves (include "penstock.hasNATS" $root) }}
{{- if $v.nats.credsSecret.name }}
- {name: nats-creds, mountPath: /etc/penstock/nats-creds, readOnly: true}
{{- end }}
{{- if $v.nats.tls.secretName }}
- {name: nats-tls, mountPath: /etc/penstock/nats-tls, readOnly: true}
{{- end }}
{{- end }}
{{- if and $v.queues (or (eq $c "ingress") (eq $c "up")) }}
- {name: queues, mountPath: /etc/penstock/queues, readOnly: true}
{{- end }}
{{- if and $v.secrets $serves }}
- {name: secrets, mountPath: /etc/penstock/secrets, readOnly: true}
{{- end }}
{{- if eq $c "up" }}
- {name: data, mountPath: /data}
{{- end }}
{{- if $serves }}
{{- with (index $v $c).extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Annotations of the pods that serve the API. Arguments: list of the root context and the component's values. */}}
{{- define "penstock.frontAnnotations" -}}
{{- $v := (index . 0).Values -}}
{{- if and $v.queues (not $v.apply.tokenSecret.name) }}
# --config is read at start only. With a token, the Job applies the file instead.
checksum/queues: {{ sha256sum $v.queues }}
{{- end }}
{{- with (index . 1).podAnnotations }}
{{ toYaml . }}
{{- end }}
{{- end -}}
