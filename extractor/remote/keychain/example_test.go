// SPDX-License-Identifier: Apache-2.0

package keychain_test

import (
	"context"
	"fmt"

	"github.com/capi-installer/capi-installer/extractor/remote/keychain"
)

// The longest path wins, and no format prints the password.
func ExampleSecret() {
	secret, err := keychain.ParseSecret("Secret openshift-config/pull-secret", []byte(`{"auths": {
		"quay.io":         {"username": "reader", "password": "s3cr3t"},
		"quay.io/example": {"username": "robot",  "password": "s3cr3t"}
	}}`))
	if err != nil {
		panic(err)
	}
	for _, repository := range []string{"quay.io/example/provider", "quay.io/other/image", "registry.example.com/image"} {
		credentials, err := secret.Resolve(context.Background(), repository)
		if err != nil {
			panic(err)
		}
		fmt.Println(repository, credentials.Username, credentials)
	}
	// Output:
	// quay.io/example/provider robot the credentials of "quay.io/example" in Secret openshift-config/pull-secret
	// quay.io/other/image reader the credentials of "quay.io" in Secret openshift-config/pull-secret
	// registry.example.com/image  no credentials
}
