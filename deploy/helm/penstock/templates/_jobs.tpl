{{/* What the Jobs share. An exit code of 2 is a wrong flag or file, 3 a refusal: trying again does not help. */}}
{{- define "penstock.jobSpec" -}}
backoffLimit: 6
activeDeadlineSeconds: 900
podFailurePolicy:
  rules:
    - action: FailJob
      onExitCodes: {containerName: penstock, operator: In, values: [2, 3]}
{{- end -}}

{{- define "penstock.jobPod" -}}
restartPolicy: Never
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext: {{- include "penstock.podSecurity" . | nindent 2 }}
{{- end -}}

{{- define "penstock.jobContainer" -}}
image: {{ include "penstock.image" (list . "") }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
command: [penstock]
resources:
  requests: {cpu: 50m, memory: 64Mi}
  limits: {memory: 256Mi}
securityContext: {{- include "penstock.containerSecurity" . | nindent 2 }}
{{- end -}}
