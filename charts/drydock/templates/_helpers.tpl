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

{{- define "drydock.apiService" -}}
{{ include "drydock.fullname" . }}-api
{{- end -}}

{{- define "drydock.tlsSecret" -}}
{{ .Values.tls.secretName | default (printf "%s-tls" (include "drydock.fullname" .)) }}
{{- end -}}

{{- define "drydock.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end -}}

{{/* The names for which the certificate is valid; pkg/app/tls.go has the same. */}}
{{- define "drydock.hosts" -}}
{{- range list (include "drydock.webhookService" .) (include "drydock.apiService" .) }}
- {{ . }}.{{ $.Release.Namespace }}.svc
- {{ . }}.{{ $.Release.Namespace }}.svc.cluster.local
- {{ . }}.{{ $.Release.Namespace }}
- {{ . }}
{{- end }}
{{- end -}}

{{/* cert-manager writes the CA into the webhook configurations. */}}
{{- define "drydock.injectCA" -}}
{{- if eq .Values.tls.source "certManager" }}
annotations:
  cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/{{ include "drydock.fullname" . }}
{{- end }}
{{- end -}}

{{/* yes and no are booleans in YAML. */}}
{{- define "drydock.consents" -}}
{{- $value := .Values.drain.liveMigrateIfPossibleConsents -}}
{{- if kindIs "bool" $value }}{{ ternary "yes" "no" $value }}{{ else }}{{ $value }}{{ end -}}
{{- end -}}

{{/* Settings that exclude each other, which a schema cannot say. */}}
{{- define "drydock.check" -}}
{{- $v := .Values -}}
{{- if and (gt (int $v.replicas) 1) (not $v.leaderElect) }}
{{- fail (printf "leaderElect: false with replicas: %d, of which all would act; only a single one may do without" (int $v.replicas)) }}
{{- end }}
{{- if and (eq $v.harvester "takeover") (not $v.webhooks.enabled) }}
{{- fail "harvester: takeover needs webhooks.enabled: true, since a webhook renames the requests" }}
{{- end }}
{{- if and $v.tls.caBundle (ne $v.tls.source "secret") }}
{{- fail (printf "tls.caBundle: is for tls.source: secret, and that is %s, which writes the CA bundle itself" $v.tls.source) }}
{{- end }}
{{- if and (eq $v.tls.source "secret") $v.webhooks.enabled (not $v.tls.caBundle) }}
{{- fail "tls.caBundle: is empty; with tls.source: secret the API server must be told whom to trust for the webhooks" }}
{{- end }}
{{- if and $v.api.ingress.enabled (not (and $v.api.enabled $v.api.ingress.host)) }}
{{- fail "api.ingress.enabled: true needs api.enabled: true and api.ingress.host" }}
{{- end }}
{{- if and $v.metrics.serviceMonitor.enabled (not $v.metrics.enabled) }}
{{- fail "metrics.serviceMonitor.enabled: true needs metrics.enabled: true, or there is nothing to read" }}
{{- end }}
{{- if and $v.metrics.prometheusRule.enabled (not $v.metrics.enabled) }}
{{- fail "metrics.prometheusRule.enabled: true needs metrics.enabled: true, or the alert that nobody leads fires for ever" }}
{{- end }}
{{- if and $v.metrics.prometheusRule.enabled (ne $v.tls.source "secret") }}
{{- $limit := $v.metrics.prometheusRule.certificateEndsWithin | default "168h" }}
{{- $renewal := ternary $v.tls.certManager.renewBefore "720h" (eq $v.tls.source "certManager") }}
{{- if ge (int (trimSuffix "h" $limit)) (int (trimSuffix "h" $renewal)) }}
{{- fail (printf "metrics.prometheusRule.certificateEndsWithin: %s is not less than the %s that are left when the certificate is renewed, so that each renewal would be an alert" $limit $renewal) }}
{{- end }}
{{- end }}
{{- $ports := dict }}
{{- range $name, $port := dict "webhooks.port" $v.webhooks.port "api.port" $v.api.port "metrics.port" $v.metrics.port "health.port" $v.health.port }}
{{- $key := toString (int $port) }}
{{- if hasKey $ports $key }}
{{- fail (printf "%s: %s is the port of %s too" $name $key (get $ports $key)) }}
{{- end }}
{{- $_ := set $ports $key $name }}
{{- end }}
{{- end -}}

{{/* What all webhooks have in common. The node webhooks have no namespaces to choose. */}}
{{- define "drydock.webhook" -}}
clientConfig:
  service:
    name: {{ include "drydock.webhookService" .root }}
    namespace: {{ .root.Release.Namespace }}
    path: {{ .path }}
    port: 443
  {{- with .root.Values.tls.caBundle }}
  caBundle: {{ . | b64enc }}
  {{- end }}
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

{{/* Whom the roles are given to. */}}
{{- define "drydock.subject" -}}
- kind: ServiceAccount
  name: {{ include "drydock.fullname" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}
