// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

func TestNameOf(t *testing.T) {
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "settings"}, Data: map[string]string{"name": "other"}}
	inProtobuf, err := runtime.Encode(scheme.Codecs.EncoderForVersion(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), corev1.SchemeGroupVersion), configMap)
	must(t, err)
	for name, test := range map[string]struct {
		method, body, want string
	}{
		"JSON":             {http.MethodPost, `{"kind":"ConfigMap","metadata":{"name":"settings"}}`, "settings"},
		"protobuf":         {http.MethodPost, string(inProtobuf), "settings"},
		"a generated name": {http.MethodPost, `{"metadata":{"generateName":"settings-"}}`, ""},
		"no object":        {http.MethodPost, "{", ""},
		"another verb":     {http.MethodPut, `{"metadata":{"name":"settings"}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), test.method, "http://127.0.0.1/", bytes.NewReader([]byte(test.body)))
			must(t, err)
			if got, _ := nameOf(r); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if body, err := io.ReadAll(r.Body); string(body) != test.body || err != nil {
				t.Errorf("the body is %q afterwards, %v; want %q", body, err, test.body)
			}
		})
	}
}
