{{- define "bulkhead.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Labels that selectors match. They must never change. Takes (dict "root" $ "component" "api"). */}}
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

{{/* "shared" if all pods mount one volume: for keys that are files (without a cluster key) or blobs that are files. Otherwise "". */}}
{{- define "bulkhead.isShared" -}}
{{- $hasKey := or .Values.clusterKey.existingSecret .Values.clusterKey.command -}}
{{- if or (eq .Values.blobs.store "files") (not $hasKey) -}}shared{{- end -}}
{{- end -}}

{{- define "bulkhead.needsDatabase" -}}
{{- if not (or .Values.database.url .Values.database.existingSecret) -}}
{{- fail "Set database.url, or database.existingSecret to the name of a Secret that holds the address of PostgreSQL." -}}
{{- end -}}
{{- if and (hasPrefix "s3://" .Values.blobs.store) (not .Values.blobs.s3.existingSecret) -}}
{{- fail "Set blobs.s3.existingSecret to the name of a Secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY." -}}
{{- end -}}
{{- if and (or .Values.clusterKey.existingSecret .Values.clusterKey.command) .Values.keys.existingSecret -}}
{{- fail "keys.existingSecret is for keys in files, and clusterKey for keys in the database: set only one of them." -}}
{{- end -}}
{{- end -}}

{{/* DATABASE_URL, from this Secret. Takes (dict "root" $ "secret" name). */}}
{{- define "bulkhead.databaseUrl" -}}
- name: DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ .root.Values.database.existingSecret | default .secret }}
      key: {{ .root.Values.database.existingSecret | empty | ternary "url" .root.Values.database.existingSecretKey }}
{{- $sessionKey := .root.Values.database.existingSecret | empty | ternary (.root.Values.database.sessionUrl | empty | ternary "" "sessionUrl") .root.Values.database.existingSecretSessionKey }}
{{- with $sessionKey }}
- name: DATABASE_SESSION_URL
  valueFrom:
    secretKeyRef:
      name: {{ $.root.Values.database.existingSecret | default $.secret }}
      key: {{ . }}
{{- end }}
{{- end -}}
