// SPDX-License-Identifier: Apache-2.0

//go:build containers_image_openpgp

package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestSignatureScripts runs the scripts that evaluate signature policies, with the commands of TestScripts and
// "signing-key NAME"; see writeSigningKey. The signatures are checked by go.podman.io/image, as podman, skopeo and CRI-O do.
func TestSignatureScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/signature", RequireExplicitExec: true, RequireUniqueNames: true, Setup: setup,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "publish": publish, "index": index, "signing-key": signingKey, "images-json": writeImagesJSON},
	})
}
