{{/* The name of the release's objects. Components append their own name. */}}
{{- define "penstock.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains "penstock" .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-penstock" .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The component that serves the API: ingress, or up. */}}
{{- define "penstock.front" -}}
{{- ternary "up" "ingress" (eq .Values.mode "up") -}}
{{- end -}}

{{/* The Service of the API. */}}
{{- define "penstock.service" -}}
{{- printf "%s-%s" (include "penstock.fullname" .) (include "penstock.front" .) -}}
{{- end -}}

{{- define "penstock.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- include "penstock.fullname" . -}}
{{- else -}}
{{- required "serviceAccount.name is empty: name an account, or set serviceAccount.create" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Labels that select the pods of a component. Argument: list of the root context and the component. */}}
{{- define "penstock.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: penstock
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "penstock.labels" -}}
{{- $root := index . 0 -}}
{{ include "penstock.selector" . }}
app.kubernetes.io/version: {{ $root.Values.image.tag | default $root.Chart.AppVersion | trunc 63 | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* The image. Argument: list of the root context and a tag that goes before image.tag. */}}
{{- define "penstock.image" -}}
{{- $root := index . 0 -}}
{{- $tag := index . 1 -}}
{{- $image := $root.Values.image -}}
{{- if $tag -}}
{{- printf "%s:%s" $image.repository $tag | quote -}}
{{- else if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest | quote -}}
{{- else -}}
{{- printf "%s:%s" $image.repository ($image.tag | default $root.Chart.AppVersion) | quote -}}
{{- end -}}
{{- end -}}

{{/* The security contexts that the restricted Pod Security Standard wants. 65532 is the user of the image. */}}
{{- define "penstock.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "penstock.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* Settings of pods that users choose for a component. */}}
{{- define "penstock.placement" -}}
{{- with .priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "penstock.spread" -}}
{{- $root := index . 0 -}}
{{- if $root.Values.topologySpread.enabled }}
topologySpreadConstraints:
{{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - topologyKey: {{ . }}
    maxSkew: 1
    whenUnsatisfiable: {{ $root.Values.topologySpread.whenUnsatisfiable }}
    labelSelector:
      matchLabels: {{- include "penstock.selector" $ | nindent 8 }}
    matchLabelKeys: [pod-template-hash]
{{- end }}
{{- end }}
{{- end -}}

{{/* Probes of health and metrics. /readyz is for routing only: a restart does not repair a missing store. */}}
{{- define "penstock.probes" -}}
{{- $scheme := ternary "HTTPS" "HTTP" (ne .Values.tls.secretName "") -}}
startupProbe:
  httpGet: {path: /healthz, port: health, scheme: {{ $scheme }}}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: health, scheme: {{ $scheme }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: health, scheme: {{ $scheme }}}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 2
{{- end -}}
