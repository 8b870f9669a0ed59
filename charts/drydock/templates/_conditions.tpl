{{/*
Match conditions (CEL) keep from the webhooks what they have no opinion on. They are
evaluated in the API server, so that heartbeats, controllers and unrelated updates never
wait for Drydock, and go on when it is down. An expression that fails counts as a webhook
that fails, so every optional field is guarded by has().

drydock.cel.has: field .field of .of is there and has the key .key.
*/}}
{{- define "drydock.cel.has" -}}
(has({{ .of }}.{{ .field }}) && '{{ .key }}' in {{ .of }}.{{ .field }})
{{- end -}}

{{/* drydock.cel.new: the object has the annotation or label, and had not, or had another
     value. */}}
{{- define "drydock.cel.new" -}}
(has(object.metadata.{{ .field }}) && '{{ .key }}' in object.metadata.{{ .field }} && !(has(oldObject.metadata.{{ .field }}) && '{{ .key }}' in oldObject.metadata.{{ .field }} && oldObject.metadata.{{ .field }}['{{ .key }}'] == object.metadata.{{ .field }}['{{ .key }}']))
{{- end -}}

{{/* drydock.cel.changed: the field .field of the two parents differs, or only one has it.
     .in is the path from the object to the parent, which must be there. */}}
{{- define "drydock.cel.changed" -}}
(has(object.{{ .in }}.{{ .field }}) != has(oldObject.{{ .in }}.{{ .field }}) || (has(object.{{ .in }}.{{ .field }}) && object.{{ .in }}.{{ .field }} != oldObject.{{ .in }}.{{ .field }}))
{{- end -}}

{{- define "drydock.strategyLabel" -}}
harvesterhci.io/maintain-mode-strategy
{{- end -}}

{{/* A VM that is going is nobody's business any more. */}}
{{- define "drydock.cel.notDeleted" -}}
!has(object.metadata.deletionTimestamp)
{{- end -}}

{{/* The strategy is missing, or its copy in the template is missing or another one. */}}
{{- define "drydock.cel.strategyIncomplete" -}}
{{- $label := include "drydock.strategyLabel" . -}}
!{{ include "drydock.cel.has" (dict "of" "object.metadata" "field" "labels" "key" $label) }} ||
(has(object.spec.template) && !(has(object.spec.template.metadata) &&
{{ include "drydock.cel.has" (dict "of" "object.spec.template.metadata" "field" "labels" "key" $label) }} &&
object.spec.template.metadata.labels['{{ $label }}'] == object.metadata.labels['{{ $label }}']))
{{- end -}}

{{/* What a VM's owner says about running has changed. */}}
{{- define "drydock.cel.runChanged" -}}
{{ include "drydock.cel.changed" (dict "in" "spec" "field" "runStrategy") }} ||
{{ include "drydock.cel.changed" (dict "in" "spec" "field" "running") }}
{{- end -}}

{{/* The eviction strategy in a VM's template has changed. */}}
{{- define "drydock.cel.evictionChanged" -}}
(has(object.spec.template) && has(object.spec.template.spec) && has(oldObject.spec.template) && has(oldObject.spec.template.spec) &&
{{ include "drydock.cel.changed" (dict "in" "spec.template.spec" "field" "evictionStrategy") }})
{{- end -}}

{{/* Somebody asks for maintenance, or for force. */}}
{{- define "drydock.cel.requested" -}}
{{- $keys := list "harvesterhci.io/drain-requested" "harvesterhci.io/drain-forced" "drydock.dev/drain-requested" "drydock.dev/drain-forced" -}}
{{- range $i, $key := $keys }}{{ if $i }} ||
{{ end }}{{ include "drydock.cel.new" (dict "field" "annotations" "key" $key) }}{{ end }}
{{- end -}}

{{- define "drydock.cel.cordoned" -}}
(has(object.spec.unschedulable) && object.spec.unschedulable && !(has(oldObject.spec.unschedulable) && oldObject.spec.unschedulable))
{{- end -}}
