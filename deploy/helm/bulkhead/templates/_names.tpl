{{- define "bulkhead.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Labels that never change: what selectors match. Takes (dict "root" $ "component" "api"). */}}
{{- define "bulkhead.selector" -}}
app.kubernetes.io/name: bulkhead
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "bulkhead.labels" -}}
{{ include "bulkhead.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "bulkhead.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "bulkhead.claim" -}}
{{ .Values.storage.existingClaim | default (include "bulkhead.fullname" .) }}
{{- end -}}

{{- define "bulkhead.needsDatabase" -}}
{{- if not (or .Values.database.url .Values.database.existingSecret) -}}
{{- fail "Set database.url, or database.existingSecret to the name of a Secret that holds it." -}}
{{- end -}}
{{- end -}}

{{/* DATABASE_URL, from this Secret. Takes (dict "root" $ "secret" name). */}}
{{- define "bulkhead.databaseUrl" -}}
- name: DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ .root.Values.database.existingSecret | default .secret }}
      key: {{ .root.Values.database.existingSecret | empty | ternary "url" .root.Values.database.existingSecretKey }}
{{- end -}}
