{{/* The release's name, unless it says what is installed anyway. Of at most 50
     characters, so that the names made from it are valid ones. */}}
{{- define "drydock.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "drydock.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "drydock.labels" -}}
{{ include "drydock.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end -}}

{{/* The Services by which the webhooks and the API are reached: the values of
     --webhook-service and --api-service. */}}
{{- define "drydock.webhookService" -}}
{{ include "drydock.fullname" . }}-webhook
{{- end -}}

{{/* What all webhooks have in common. The node webhooks have no namespaces to choose. */}}
{{- define "drydock.webhook" -}}
clientConfig:
  service:
    name: {{ include "drydock.webhookService" .root }}
    namespace: {{ .root.Release.Namespace }}
    path: {{ .path }}
    port: 443
admissionReviewVersions: [v1]
# A dry run is answered like any other write: nothing is written by a webhook.
sideEffects: None
matchPolicy: Equivalent
timeoutSeconds: {{ .root.Values.webhooks.timeoutSeconds }}
failurePolicy: {{ .policy }}
{{- end -}}

{{- define "drydock.namespaceSelector" -}}
namespaceSelector:
  matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values:
        - {{ .Release.Namespace }}
        {{- range .Values.webhooks.excludedNamespaces }}
        - {{ . }}
        {{- end }}
{{- end -}}
