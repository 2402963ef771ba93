// SPDX-License-Identifier: Apache-2.0

package clusterapi

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestCRDs_UpToDate compares with the CRDs in the modules; UPDATE=1 writes them.
func TestCRDs_UpToDate(t *testing.T) {
	clusterAPI := moduleFolder(t, "list", "-m", "-json", "sigs.k8s.io/cluster-api")
	certManager := moduleFolder(t, "mod", "download", "-C", "../../../test/fixture/providers", "-json", "github.com/cert-manager/cert-manager")
	var all bytes.Buffer
	for _, pattern := range []string{
		filepath.Join(clusterAPI, "core/config/crd/bases/*.yaml"), filepath.Join(clusterAPI, "bootstrap/kubeadm/config/crd/bases/*.yaml"),
		filepath.Join(clusterAPI, "controlplane/kubeadm/config/crd/bases/*.yaml"), filepath.Join(certManager, "deploy/crds/cert-manager.io_*.yaml"),
	} {
		files, err := filepath.Glob(pattern)
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
		t.Error("crds.yaml differs from the CRDs in the modules; run go generate")
	}
}

// moduleFolder returns the folder of a module from the output of the go command.
func moduleFolder(t *testing.T, arguments ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", arguments...).Output()
	var module struct{ Dir string }
	if err == nil {
		err = json.Unmarshal(out, &module)
	}
	if err != nil {
		t.Fatal(err)
	}
	return module.Dir
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
