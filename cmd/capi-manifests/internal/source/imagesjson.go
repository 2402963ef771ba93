// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bufio"
	"os"
	"strings"
)

// IsImagesJSON reports whether a source is images.json: a file that begins with a
// JSON object, standard input or a pipe.
func IsImagesJSON(source string) (bool, error) {
	if source == "-" {
		return true, nil
	}
	info, err := os.Stat(source)
	if err != nil || info.IsDir() {
		return false, nil // opening it returns the error
	}
	if !info.Mode().IsRegular() {
		return true, nil // can be read only once
	}
	file, err := os.Open(source)
	if err != nil {
		return false, err
	}
	defer file.Close()
	for reader := bufio.NewReader(file); ; {
		char, _, err := reader.ReadRune()
		if err != nil || !strings.ContainsRune(" \t\r\n\ufeff", char) {
			return char == '{', nil
		}
	}
}
