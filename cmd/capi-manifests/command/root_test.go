// SPDX-License-Identifier: Apache-2.0

package command

import (
	"regexp"
	"testing"
)

func TestRoot_HelpNamesEveryCommand(t *testing.T) {
	for _, cmd := range New("").Commands() {
		if !regexp.MustCompile(`(?m)^  (\w+, )*`+cmd.Name()+`[ ,]`).MatchString(rootLong) && cmd.Name() != "version" {
			t.Errorf("the help does not describe %s", cmd.Name())
		}
	}
}
