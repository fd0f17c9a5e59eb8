{{/* What pods of both processes have in common. All take (dict "root" $ "component" "api" "values" .Values.api). */}}

{{- define "bulkhead.environment" -}}
{{- $root := .root -}}
{{- include "bulkhead.databaseUrl" (dict "root" $root "secret" (include "bulkhead.fullname" $root)) }}
- name: PUBLIC_URL
  value: {{ $root.Values.publicUrl | quote }}
- name: SUPERVISOR_URL
  value: {{ $root.Values.supervisorUrl | quote }}
{{- with $root.Values.trustProxy }}
- name: TRUST_PROXY
  value: {{ . | quote }}
{{- end }}
{{- range $name, $value := mergeOverwrite (dict) $root.Values.settings .values.settings }}
- name: {{ $name }}
  value: {{ $value | toString | quote }}
{{- end }}
{{- end -}}

{{- define "bulkhead.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
# Not a look at every file of a large volume at every start.
fsGroupChangePolicy: OnRootMismatch
{{- end -}}

{{- define "bulkhead.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end -}}

{{/* All on one node where the volume cannot be on several; else apart where that can be had. */}}
{{- define "bulkhead.affinity" -}}
{{- if eq .root.Values.storage.accessMode "ReadWriteOnce" }}
podAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    - topologyKey: kubernetes.io/hostname
      labelSelector:
        matchLabels:
          app.kubernetes.io/name: bulkhead
          app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- else }}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 1
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "bulkhead.selector" . | nindent 12 }}
{{- end }}
{{- end -}}

{{/* Scheduling, identity, and the keys that are to be on the volume before anything starts. */}}
{{- define "bulkhead.podSpec" -}}
{{- $root := .root -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
affinity:
  {{- include "bulkhead.affinity" . | trim | nindent 2 }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if $root.Values.keys.existingSecret }}
initContainers:
  - name: keys
    image: {{ include "bulkhead.image" $root }}
    imagePullPolicy: {{ $root.Values.image.pullPolicy }}
    command: [node, deploy/place-keys.ts, /keys]
    securityContext:
      {{- include "bulkhead.containerSecurity" . | nindent 6 }}
    volumeMounts:
      - { name: data, mountPath: /var/lib/bulkhead }
      - { name: keys, mountPath: /keys, readOnly: true }
{{- end }}
{{- end -}}

{{- define "bulkhead.volumes" -}}
- name: data
  persistentVolumeClaim: { claimName: {{ include "bulkhead.claim" .root }} }
- name: tmp
  emptyDir: {}
{{- with .root.Values.keys.existingSecret }}
- name: keys
  secret: { secretName: {{ . }}, defaultMode: 0440 }
{{- end }}
{{- end -}}

{{- define "bulkhead.mounts" -}}
- { name: data, mountPath: /var/lib/bulkhead }
- { name: tmp, mountPath: /tmp }
{{- end -}}

{{/* A value that makes pods anew when what is mounted or read at start has changed. */}}
{{- define "bulkhead.annotations" -}}
checksum/database: {{ .root.Values.database | toJson | sha256sum }}
{{- with .values.podAnnotations }}
{{ toYaml . }}
{{- end }}
{{- end -}}
