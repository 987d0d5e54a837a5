{{/* Rules of NetworkPolicies that several have. */}}
{{- define "penstock.dnsEgress" -}}
- ports: [{protocol: UDP, port: 53}, {protocol: TCP, port: 53}]
{{- end -}}

{{- define "penstock.redisEgress" -}}
- ports: {{- range .Values.redis.ports }}
    - {protocol: TCP, port: {{ int . }}}
    {{- end }}
  {{- with .Values.networkPolicy.redis }}
  to: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* Targets: public addresses, as penstock itself allows them, and those of egressAllow that are no names. */}}
{{- define "penstock.targetEgress" -}}
- to:
    - ipBlock:
        cidr: 0.0.0.0/0
        except: [0.0.0.0/8, 10.0.0.0/8, 100.64.0.0/10, 127.0.0.0/8, 169.254.0.0/16, 172.16.0.0/12, 192.168.0.0/16]
    - ipBlock: {cidr: "2000::/3"}
    {{- range .Values.egressAllow }}
    {{- if regexMatch "^[0-9.]+(/[0-9]+)?$|^[0-9a-fA-F:.]*:[0-9a-fA-F:.]*(/[0-9]+)?$" . }}
    - ipBlock: {cidr: {{ ternary . (printf "%s/%s" . (ternary "128" "32" (contains ":" .))) (contains "/" .) | quote }}}
    {{- end }}
    {{- end }}
    {{- with .Values.networkPolicy.targets }}{{ toYaml . | nindent 4 }}{{ end }}
{{- end -}}
