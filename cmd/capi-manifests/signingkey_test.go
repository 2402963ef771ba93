// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"
	"go.podman.io/image/v5/signature/sigstore"
)

// writeSigningKey writes a key pair in the format of "skopeo generate-sigstore-key": NAME.key, encrypted with the
// passphrase in the file "passphrase", NAME.pub, and NAME.json, a policy that requires signatures by this key.
func writeSigningKey(dir, name string) error {
	const passphrase = "correct horse"
	pair, err := sigstore.GenerateKeyPair([]byte(passphrase))
	if err != nil {
		return err
	}
	policy := fmt.Appendf(nil, `{"default": [{"type": "sigstoreSigned", "keyData": %q}]}`, base64.StdEncoding.EncodeToString(pair.PublicKey))
	for file, content := range map[string][]byte{
		name + ".key": pair.PrivateKey, name + ".pub": pair.PublicKey, name + ".json": policy, "passphrase": []byte(passphrase + "\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func signingKey(ts *testscript.TestScript, args []string) {
	ts.Check(writeSigningKey(ts.Getenv("WORK"), args[0]))
}
