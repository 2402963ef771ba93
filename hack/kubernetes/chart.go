// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	_ "embed"
	"path"
	"regexp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/object"
)

// The files of the chart that are written by hand.
var (
	//go:embed chart/Chart.yaml
	chartFile []byte
	//go:embed chart/values.yaml
	valuesFile []byte
	//go:embed chart/values.schema.json
	schemaFile []byte
	//go:embed chart/NOTES.txt
	notesFile []byte
)

const chartDir = "deploy/helm/capi-installer/"

// chart returns the files of the Helm chart.
func chart() (map[string][]byte, error) {
	objects, err := installation(v1alpha1.Namespaces{Operator: "{{ .Release.Namespace }}", Operand: "{{ .Values.providersNamespace }}"})
	if err != nil {
		return nil, err
	}
	var own []*unstructured.Unstructured
	for _, o := range objects {
		if o.GetKind() == "Namespace" && o.GetName() == "{{ .Release.Namespace }}" {
			continue // helm --create-namespace creates it
		}
		parametrize(o)
		own = append(own, o)
	}
	templates, err := stream(own)
	if err != nil {
		return nil, err
	}
	schema, err := valuesSchema(objects)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		chartDir + "Chart.yaml": chartFile, chartDir + "values.yaml": valuesFile, chartDir + "values.schema.json": schema,
		chartDir + "templates/NOTES.txt":           notesFile,
		chartDir + "templates/capi-installer.yaml": optional(expand(templates)),
	}, nil
}

// parametrize replaces fields of an object by values of the chart.
func parametrize(o *unstructured.Unstructured) {
	switch o.GetKind() {
	case "CustomResourceDefinition", "Namespace": // "helm uninstall" leaves them: they contain objects of users
		annotations := o.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations["helm.sh/resource-policy"] = "keep"
		o.SetAnnotations(annotations)
	case "ConfigMap":
		if o.GetName() != imagesConfigMap {
			return
		}
		o.Object["data"] = map[string]any{
			"release-version": "{{ .Values.releaseVersion }}",
			"platform":        "{{ join \",\" .Values.platforms }}",
			"images.json":     block("toPrettyJson .Values.images", 4),
			"clusterapi.yaml": block("toYaml .Values.settings", 4),
		}
	case "Deployment":
		pod := object.MapAt(object.PodTemplate(o), "spec")
		container := pod["containers"].([]any)[0].(map[string]any)
		container["image"] = "{{ required \"image is required: the image of the installer\" .Values.image }}"
		container["args"] = append(container["args"].([]any), "MORE_NAMESPACES", "EXTRA_ARGS")
		container["resources"] = block("toYaml .Values.resources", 12)
		pod["imagePullSecrets"] = block("toYaml .Values.imagePullSecrets", 8)
		pod["nodeSelector"] = block("toYaml .Values.nodeSelector", 8)
		pod["tolerations"] = block("toYaml .Values.tolerations", 8)
	}
}

// block returns the placeholder of a value that is a block of YAML or text, indented by a number of spaces.
func block(value string, spaces int) string {
	return "BLOCK " + value + " " + string(rune('0'+spaces/10)) + string(rune('0'+spaces%10))
}

var blocks = regexp.MustCompile(`(?m)^( *)([\w.-]+): BLOCK (.*) (\d)(\d)$`)

// expand writes the templates of blocks. They are not text of YAML.
func expand(templates []byte) []byte {
	templates = blocks.ReplaceAllFunc(templates, func(line []byte) []byte {
		m := blocks.FindSubmatch(line)
		indent := bytes.TrimLeft(append(m[4], m[5]...), "0")
		if file := string(m[2]); path.Ext(file) != "" {
			return []byte(string(m[1]) + file + ": |-\n" + string(m[1]) + "  {{- " + string(m[3]) + " | nindent " + string(indent) + " }}")
		}
		return []byte(string(m[1]) + string(m[2]) + ": {{- " + string(m[3]) + " | nindent " + string(indent) + " }}")
	})
	extra := []byte("        {{- range .Values.extraArgs }}\n        - {{ . | quote }}\n        {{- end }}\n")
	more := []byte("        {{- range .Values.moreProvidersNamespaces }}\n        - --providers-namespace={{ . }}\n        {{- end }}\n")
	templates = bytes.Replace(templates, []byte("        - MORE_NAMESPACES\n"), more, 1)
	return bytes.Replace(templates, []byte("        - EXTRA_ARGS\n"), extra, 1)
}

// optional puts the documents that a cluster can have already under a condition.
func optional(templates []byte) []byte {
	documents := bytes.Split(templates, []byte("---\n"))
	for i, document := range documents {
		for kind, value := range map[string]string{"Namespace": "createProvidersNamespace", "CustomResourceDefinition": "installCRD"} {
			if bytes.Contains(document, []byte("\nkind: "+kind+"\n")) {
				documents[i] = []byte("{{- if .Values." + value + " }}\n" + string(document) + "{{- end }}\n")
			}
		}
	}
	return bytes.Join(documents, []byte("---\n"))
}
