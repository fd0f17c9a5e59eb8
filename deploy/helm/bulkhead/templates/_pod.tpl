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
- name: BLOBS
  value: {{ $root.Values.blobs.store | quote }}
{{- if hasPrefix "s3://" $root.Values.blobs.store }}
{{- with $root.Values.blobs.s3.endpoint }}
- name: AWS_ENDPOINT_URL
  value: {{ . | quote }}
{{- end }}
- name: AWS_REGION
  value: {{ $root.Values.blobs.s3.region | quote }}
{{- range list "AWS_ACCESS_KEY_ID" "AWS_SECRET_ACCESS_KEY" }}
- name: {{ . }}
  valueFrom: { secretKeyRef: { name: {{ $root.Values.blobs.s3.existingSecret }}, key: {{ . }} } }
{{- end }}
{{- end }}
{{- if $root.Values.clusterKey.existingSecret }}
- name: CLUSTER_KEY_FILE
  value: /etc/bulkhead-key/key
{{- else if $root.Values.clusterKey.command }}
- name: CLUSTER_KEY_COMMAND
  value: {{ $root.Values.clusterKey.command | quote }}
{{- end }}
{{- range $name, $value := mergeOverwrite (dict) $root.Values.settings .values.settings }}
- name: {{ $name }}
  {{- /* Helm reads numbers of values files as floats, and prints large ones with an exponent. */}}
  value: {{ kindIs "float64" $value | ternary (printf "%.0f" $value) (toString $value) | quote }}
{{- end }}
{{- end -}}

{{- define "bulkhead.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
# Otherwise every start sets the group of every file of the volume.
fsGroupChangePolicy: OnRootMismatch
{{- end -}}

{{- define "bulkhead.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end -}}

{{/* All pods on one node if only one node can mount the shared volume; otherwise spread over nodes and zones if possible. */}}
{{- define "bulkhead.placement" -}}
{{- if and (include "bulkhead.isShared" .root) (eq .root.Values.storage.accessMode "ReadWriteOnce") }}
affinity:
  podAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            app.kubernetes.io/name: bulkhead
            app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- else }}
topologySpreadConstraints:
  {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "bulkhead.selector" $ | nindent 8 }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* Scheduling, and the init container that copies keys to the volume. */}}
{{- define "bulkhead.podSpec" -}}
{{- $root := .root -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{ include "bulkhead.placement" . | trim }}
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

{{/* DATA_DIR is the shared volume; or the API's own volume of its StatefulSet, which keeps the spool; or a supervisor's emptyDir. */}}
{{- define "bulkhead.volumes" -}}
{{- if include "bulkhead.isShared" .root }}
- name: data
  persistentVolumeClaim: { claimName: {{ include "bulkhead.claim" .root }} }
{{- else if eq .component "supervisor" }}
- name: data
  emptyDir: {}
{{- end }}
- name: tmp
  emptyDir: {}
{{- with .root.Values.clusterKey.existingSecret }}
- name: cluster-key
  secret: { secretName: {{ . }}, items: [{ key: {{ $.root.Values.clusterKey.existingSecretKey }}, path: key }], defaultMode: 0440 }
{{- end }}
{{- with .root.Values.keys.existingSecret }}
- name: keys
  secret: { secretName: {{ . }}, defaultMode: 0440 }
{{- end }}
{{- include "bulkhead.caVolume" .root }}
{{- end -}}

{{- define "bulkhead.mounts" -}}
- { name: data, mountPath: /var/lib/bulkhead }
- { name: tmp, mountPath: /tmp }
{{- if .Values.clusterKey.existingSecret }}
- { name: cluster-key, mountPath: /etc/bulkhead-key, readOnly: true }
{{- end }}
{{- include "bulkhead.caMount" . }}
{{- end -}}

{{/* The certificate of the authority of PostgreSQL's certificate, for every container that connects to it. Takes the root. */}}
{{- define "bulkhead.caMount" -}}
{{- if .Values.database.caSecret }}
- { name: database-ca, mountPath: /etc/bulkhead-database, readOnly: true }
{{- end }}
{{- end -}}

{{- define "bulkhead.caVolume" -}}
{{- with .Values.database.caSecret }}
- name: database-ca
  secret: { secretName: {{ . }}, defaultMode: 0440 }
{{- end }}
{{- end -}}

{{/* Hashes that change with what pods read at start, so that Kubernetes replaces the pods. */}}
{{- define "bulkhead.annotations" -}}
checksum/database: {{ .root.Values.database | toJson | sha256sum }}
checksum/storage: {{ list .root.Values.blobs .root.Values.clusterKey | toJson | sha256sum }}
{{- with .values.podAnnotations }}
{{ toYaml . }}
{{- end }}
{{- end -}}
