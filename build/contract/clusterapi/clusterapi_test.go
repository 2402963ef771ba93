// SPDX-License-Identifier: Apache-2.0

package clusterapi

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestCRDs_UpToDate compares with the CRDs in the module; UPDATE=1 writes them.
func TestCRDs_UpToDate(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	if err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	for _, of := range []string{"core", "bootstrap/kubeadm", "controlplane/kubeadm"} {
		files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), of, "config/crd/bases/*.yaml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("found %v, %v", files, err)
		}
		for _, file := range files {
			all.WriteString("---\n")
			all.Write(withoutDescriptions(t, file))
		}
	}
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile("crds.yaml", all.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(all.Bytes(), CRDs) {
		t.Error("crds.yaml differs from the CRDs in the module; run go generate")
	}
}

func withoutDescriptions(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var content map[string]any
	if err := yaml.Unmarshal(text, &content); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(strip(content))
	if err != nil {
		t.Fatal(err)
	}
	return append(data, '\n')
}

func strip(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			if _, isText := field.(string); key == "description" && isText {
				delete(value, key)
			} else {
				value[key] = strip(field)
			}
		}
	case []any:
		for i := range value {
			value[i] = strip(value[i])
		}
	}
	return value
}
