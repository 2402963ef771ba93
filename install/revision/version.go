// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// Same says whether a version has this content ID and was made with the same
// unmanaged CRDs, in whatever order they are listed.
func Same(version v1alpha1.Version, contentID digest.Digest, unmanaged []string) bool {
	return string(version.ContentID) == contentID.String() && SameUnmanaged(version, unmanaged)
}

// SameUnmanaged says whether a version was made with these unmanaged CRDs.
func SameUnmanaged(version v1alpha1.Version, unmanaged []string) bool {
	return slices.Equal(sorted(version.UnmanagedCRDs), sorted(unmanaged))
}

func sorted(names []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

// Number returns the revision number in the name of a version,
// <release version>-<revision number>.
func Number(name string) (int64, error) {
	at := strings.LastIndexByte(name, '-')
	number, err := strconv.ParseInt(name[at+1:], 10, 64)
	if at < 1 || err != nil || number < 1 || strconv.FormatInt(number, 10) != name[at+1:] {
		return 0, &Error{Version: name, Err: errors.New("the name does not end in a revision number, as in <release version>-<number>")}
	}
	return number, nil
}

// Next returns the name and the number of the version after those in history,
// for a release. The number is higher than all before, whatever release they are of.
// It fails where the name could not be that of a ConfigMap and the value of a label.
func Next(history []v1alpha1.Version, release string) (name string, number int64, err error) {
	for _, version := range history {
		number = max(number, version.Revision)
	}
	if number == math.MaxInt64 {
		return "", 0, &Error{Err: fmt.Errorf("revision number %d is the highest there can be", number)}
	}
	number++
	name = fmt.Sprintf("%s-%d", release, number)
	problems := validation.IsDNS1123Subdomain(name)
	if len(name) > validation.LabelValueMaxLength {
		problems = append(problems, fmt.Sprintf("it has %d characters, and may have %d", len(name), validation.LabelValueMaxLength))
	}
	if problems != nil {
		return "", 0, &Error{Version: name, Err: fmt.Errorf(
			"the release version %q cannot be part of the name of a ConfigMap: %s; give the installer a release version such as 4.22.3",
			release, strings.Join(problems, "; "))}
	}
	return name, number, nil
}
