// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/verdict"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

const inspected = `apiVersion: apps/v1
kind: Deployment
metadata: {name: manager, namespace: capi}
spec:
  template:
    spec:
      containers:
      - {name: manager, image: quay.io/me/capi, args: ["--v=${LOGLEVEL:=2}", "--region=${REGION}", "--tls-min-version=${TLS_MIN_VERSION}"]}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: manager, namespace: capi}}
`

func Example_inspect() {
	inspection, err := inspect("./capi", []extractor.Bundle{{
		Metadata:  extractor.Metadata{ProviderName: "core", ProviderType: extractor.Core, ProviderVersion: "v1.0.0", ContentID: "sha256:1234"},
		Manifests: []byte(inspected),
	}})
	fmt.Println(err)
	inspection.Signature = &verdict.Verdict{Decision: verdict.Accepted, Policy: "policy.json", Scope: "quay.io"}
	var out bytes.Buffer
	inspection.table(&out)
	fmt.Print(out.String())
	// Output:
	// <nil>
	// Source       ./capi
	// Signature    accepted by scope quay.io of policy.json
	// Provider     core
	// Type         core
	// Version      v1.0.0
	// Platform     every
	// Content ID   sha256:1234
	// Placeholder  -
	// Manifests    2 objects, 353 bytes
	//
	// KIND            GROUP  COUNT
	// ServiceAccount  -      1
	// Deployment      apps   1
	//
	// IMAGE
	// quay.io/me/capi
	//
	// VARIABLE         DEFAULT
	// LOGLEVEL         2
	// REGION           (required)
	// TLS_MIN_VERSION  (set by the installer)
}

func TestInspect_InvalidManifests(t *testing.T) {
	_, err := inspect("./capi", []extractor.Bundle{{Manifests: []byte("kind: {")}})
	if !errors.Is(err, extractor.ErrInvalid) {
		t.Errorf("error %v, want an ErrInvalid", err)
	}
}

// Manifests need not end with a line break.
func TestWriteManifests_IsOneStream(t *testing.T) {
	var out bytes.Buffer
	if err := writeManifests(&out, []extractor.Bundle{{Manifests: []byte("kind: A")}, {Manifests: []byte("---\nkind: B\n")}, {Manifests: []byte("kind: C\n")}}); err != nil {
		t.Fatal(err)
	}
	objects, err := yamldoc.Objects(out.Bytes())
	kinds := ""
	for _, o := range objects {
		kinds += o.GetKind()
	}
	if err != nil || kinds != "ABC" {
		t.Errorf("kinds %s, error %v", kinds, err)
	}
}
