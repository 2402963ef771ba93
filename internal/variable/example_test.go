// SPDX-License-Identifier: Apache-2.0

package variable_test

import (
	"fmt"

	"github.com/capi-installer/capi-installer/internal/variable"
)

func ExampleSubstitute() {
	text := []byte("--v=${LOGLEVEL:=0} --name=${NAME} $${ESCAPED} $(POD_IP)")
	out := variable.Substitute(text, map[string]string{"NAME": "aws"}, func(offset int, err error) { fmt.Println(offset, err) })
	fmt.Println(string(out))
	// Output: --v=0 --name=aws $${ESCAPED} $(POD_IP)
}

func ExampleVariables() {
	for _, v := range variable.Variables([]byte("--v=${LOGLEVEL:=0} --name=${NAME} $${ESCAPED}")) {
		fmt.Println(v.Name, "required:", v.Required)
	}
	// Output:
	// LOGLEVEL required: false
	// NAME required: true
}
