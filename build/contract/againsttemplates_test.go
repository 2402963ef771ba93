// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ruleServer rejects what a function rejects, and records the objects that it gets.
type ruleServer struct {
	schema map[string]any
	reject func(*unstructured.Unstructured) []Cause

	mu   sync.Mutex
	sent []*unstructured.Unstructured
}

func (s *ruleServer) Schema(context.Context, schema.GroupVersionKind) (map[string]any, error) {
	return s.schema, nil
}

func (s *ruleServer) DryRun(context.Context, *unstructured.Unstructured) (Answer, error) {
	return Answer{}, errors.ErrUnsupported
}

func (s *ruleServer) DryRunCreate(_ context.Context, o *unstructured.Unstructured) (Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, o)
	if causes := s.reject(o); len(causes) > 0 {
		return Answer{Verdict: Rejected, Causes: causes}, nil
	}
	return Answer{}, nil
}

const clusterSchema = `{"properties": {"spec": {"properties": {
  "count": {"type": "integer", "minimum": 2}, "paused": {"type": "boolean"}, "mode": {"type": "string", "enum": ["fast", "slow"]},
  "port": {"type": "integer", "maximum": 9}, "version": {"type": "string"}, "name": {"type": "string", "minLength": 1},
  "list": {"items": {"properties": {"count": {"type": "integer"}}}}, "labels": {"additionalProperties": {"type": "string"}}}}}}`

// check returns the findings in a template, as "rule line: message".
func (s *ruleServer) check(t *testing.T, files map[string]string) (found []string) {
	t.Helper()
	if err := json.Unmarshal([]byte(clusterSchema), &s.schema); err != nil {
		t.Fatal(err)
	}
	release := Release{Dir: "infrastructure-example/v1.0.0", Files: map[string][]byte{}}
	for name, text := range files {
		release.Files[name] = []byte(text)
	}
	findings, err := CheckReleaseAgainst(t.Context(), release, s, []Rule{{ID: RuleTemplateAccepted, Severity: Error}, {ID: RuleObjectAccepted, Severity: Error}, {ID: RuleNotChecked, Severity: Info}})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		found = append(found, fmt.Sprintf("%s %s:%d %s", strings.TrimPrefix(f.Rule, "server/"), f.File, f.Line, f.Message))
	}
	return found
}

func cluster(spec string) map[string]string {
	return map[string]string{"cluster-template.yaml": "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: \"${CLUSTER_NAME}\"}\nspec:\n" + spec}
}

func TestCheckReleaseAgainst_ValuesFitTheSchema(t *testing.T) {
	s := &ruleServer{reject: func(*unstructured.Unstructured) []Cause { return nil }}
	found := s.check(t, cluster(`  count: ${COUNT}
  paused: ${PAUSED}
  mode: ${MODE}
  port: ${PORT}
  version: ${VERSION}
  name: ${NAME}-${OTHER}
  list: [{count: "${COUNT}"}]
  labels: {"${KEY}": "${CLUSTER_NAME}"}
  fallback: ${FALLBACK:=x}
`))
	want := map[string]any{
		"count": int64(3), "paused": true, "mode": "fast", "port": int64(0), "version": "v1.35.0", "name": "given-value-5-given-value-6",
		"list": []any{map[string]any{"count": int64(1)}}, "labels": map[string]any{"given-value-3": "given-value-1"}, "fallback": "x",
	}
	if len(s.sent) != 1 || len(found) > 0 {
		t.Fatalf("sent %d objects, found %v", len(s.sent), found)
	}
	if diff := cmp.Diff(want, s.sent[0].Object["spec"]); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

func TestCheckReleaseAgainst_Rejections(t *testing.T) {
	const spec = "  count: 1\n  name: ${NAME}\n  list:\n  - name: ${ITEM}\n    count: 7\n"
	at := func(field, message string) func(*unstructured.Unstructured) []Cause {
		return func(o *unstructured.Unstructured) []Cause {
			name, _, _ := unstructured.NestedString(o.Object, "spec", "name")
			list, _, _ := unstructured.NestedSlice(o.Object, "spec", "list")
			item, _ := list[0].(map[string]any)["name"].(string)
			replace := strings.NewReplacer("NAME", name, "ITEM", item)
			return []Cause{{Field: replace.Replace(field), Message: replace.Replace(message)}}
		}
	}
	for name, test := range map[string]struct {
		field, message string
		want           string
	}{
		"a value of the template":             {"spec.count", "too small", "template-accepted cluster-template.yaml:5 too small"},
		"a field in an item with a name":      {"spec.list[ITEM].count", "too great", "template-accepted cluster-template.yaml:9 too great"},
		"a missing field":                     {"spec.missing", "Required value", "template-accepted cluster-template.yaml:5 Required value"},
		"the whole object":                    {"", "unknown field", "template-accepted cluster-template.yaml:1 unknown field"},
		"the value of a variable":             {"spec.name", "unknown", "not-checked cluster-template.yaml:6 depends on variables without default: unknown"},
		"an object with such a value":         {"spec", "invalid", "not-checked cluster-template.yaml:5 depends on variables without default: invalid"},
		"a part of the value of a variable":   {"spec.name.first", "Required value", "not-checked cluster-template.yaml:6 depends on variables without default: Required value"},
		"the message has a variable's value":  {"spec.count", "less than NAME", "not-checked cluster-template.yaml:5 depends on variables without default: less than ${NAME}"},
		"the whole object because of a value": {"", "NAME is unknown", "not-checked cluster-template.yaml:1 depends on variables without default: ${NAME} is unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &ruleServer{reject: at(test.field, test.message)}
			if diff := cmp.Diff([]string{test.want}, s.check(t, cluster(spec))); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// A rejection that other values avoid is no error.
func TestCheckReleaseAgainst_OtherValuesAreAccepted(t *testing.T) {
	s := &ruleServer{reject: func(o *unstructured.Unstructured) []Cause {
		if paused, _, _ := unstructured.NestedBool(o.Object, "spec", "paused"); paused {
			return []Cause{{Field: "spec.count", Message: "is for clusters that run"}}
		}
		return nil
	}}
	found := s.check(t, cluster("  count: 1\n  paused: ${PAUSED}\n"))
	if len(found) != 1 || !strings.HasPrefix(found[0], "not-checked ") {
		t.Errorf("got %v, want one finding that says that it was not checked", found)
	}
}

// A line that is only a variable can add fields, so missing fields are no error.
func TestCheckReleaseAgainst_IncompleteObject(t *testing.T) {
	s := &ruleServer{reject: func(*unstructured.Unstructured) []Cause {
		return []Cause{{Field: "spec.missing", Message: "Required value"}, {Field: "spec.count", Message: "too small"}}
	}}
	found := s.check(t, cluster("  count: 1\n  ${MORE}\n"))
	if len(found) != 2 || !strings.HasPrefix(found[0], "template-accepted cluster-template.yaml:5") && !strings.HasPrefix(found[1], "template-accepted cluster-template.yaml:5") {
		t.Errorf("got %v, want an error at the existing field only", found)
	}
}

// The components are sent before the templates, in a namespace that exists.
func TestCheckReleaseAgainst_Components(t *testing.T) {
	s := &ruleServer{reject: func(o *unstructured.Unstructured) []Cause {
		if o.GetKind() == "ConfigMap" && o.GetNamespace() == "default" {
			return []Cause{{Field: "data", Message: "too great"}}
		}
		return nil
	}}
	files := cluster("  count: 1\n")
	files["infrastructure-components.yaml"] = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: a}\ndata: {}\n"
	if diff := cmp.Diff([]string{"object-accepted infrastructure-components.yaml:8 too great"}, s.check(t, files)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	if last := s.sent[len(s.sent)-1].GetKind(); last != "Cluster" || len(s.sent) != 3 {
		t.Errorf("sent %d objects, the last is a %s", len(s.sent), last)
	}
}
