// SPDX-License-Identifier: Apache-2.0

package ocilayout_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"

	"github.com/capi-installer/capi-installer/internal/ocilayout"
)

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	layout := filepath.Join(dir, "image")
	if err := ocilayout.Write(context.Background(), layout, empty.Image, "quay.io/example/provider:v1"); err != nil {
		panic(err)
	}
	entry, err := ocilayout.Read(layout)
	if err != nil {
		panic(err)
	}
	_, isImage := entry.(v1.Image)
	fmt.Println(ocilayout.IsDir(layout), isImage)
	// Output: true true
}
