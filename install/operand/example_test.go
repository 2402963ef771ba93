// SPDX-License-Identifier: Apache-2.0

package operand_test

import (
	"errors"
	"fmt"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/imagesjson"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/internal/object"
)

func exampleBundle(name string, kind extractor.ProviderType, platform, manifests string) extractor.Bundle {
	return extractor.Bundle{
		Origin:    extractor.Origin{Name: name},
		Metadata:  extractor.Metadata{ProviderName: name, ProviderType: kind, ProviderVersion: "v1.0.0", OCPPlatform: platform},
		Manifests: []byte(manifests),
	}
}

// Select picks the core provider and the infrastructure provider of the platform;
// Render substitutes the variables of their manifests.
func ExampleRender() {
	const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: openshift-cluster-api}\ndata: {level: \"${LEVEL:=1}\"}\n"
	var results []extractor.Result
	for _, bundle := range []extractor.Bundle{
		exampleBundle("azure", extractor.Infrastructure, "Azure", ""),
		exampleBundle("aws", extractor.Infrastructure, "AWS", fmt.Sprintf(configMap, "aws")),
		exampleBundle("core", extractor.Core, "", fmt.Sprintf(configMap, "core")),
	} {
		results = append(results, extractor.Result{Image: imagesjson.Image{Name: bundle.Origin.Name}, Bundles: []extractor.Bundle{bundle}})
	}
	bundles, err := operand.Select(operand.Platforms{"AWS"}, results)
	if err != nil {
		panic(err)
	}
	set, err := operand.Render(operand.Inputs{Bundles: bundles, Variables: map[string]string{"LEVEL": "5"}})
	if err != nil {
		panic(err)
	}
	for _, component := range set.Operands {
		for _, o := range component.Objects {
			fmt.Println(component.Name, object.Describe(o), o.Object["data"])
		}
	}
	// Output:
	// core ConfigMap openshift-cluster-api/core map[level:5]
	// aws ConfigMap openshift-cluster-api/aws map[level:5]
}

// A missing provider is an error: an empty selection would uninstall the providers.
func ExampleMissingError() {
	_, err := operand.Select(operand.Platforms{"AWS"}, nil)
	_, missing := errors.AsType[*operand.MissingError](err)
	fmt.Println(missing)
	// Output: true
}
