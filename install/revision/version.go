// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// Number returns the revision number in the name of a version,
// <release version>-<revision number>.
func Number(name string) (int64, error) {
	at := strings.LastIndexByte(name, '-')
	number, err := strconv.ParseInt(name[at+1:], 10, 64)
	if at < 1 || err != nil || number < 1 || strconv.FormatInt(number, 10) != name[at+1:] {
		return 0, &Error{Version: name, Err: errors.New("invalid name: want <release version>-<revision number>")}
	}
	return number, nil
}

// Release returns the release version in the name of a version; the name itself if it has no revision number.
func Release(name string) string {
	if at := strings.LastIndexByte(name, '-'); at >= 0 {
		return name[:at]
	}
	return name
}

// Next returns the name and the number of the next version of a release. The number
// is higher than all numbers in history, of any release. It fails if the name is
// not valid for a ConfigMap and as the value of a label.
func Next(history []v1alpha1.Version, release string) (name string, number int64, err error) {
	for _, version := range history {
		number = max(number, version.Revision)
	}
	if number == math.MaxInt64 {
		return "", 0, &Error{Err: fmt.Errorf("revision number %d is the maximum", number)}
	}
	number++
	name = fmt.Sprintf("%s-%d", release, number)
	problems := validation.IsDNS1123Subdomain(name)
	if len(name) > validation.LabelValueMaxLength {
		problems = append(problems, fmt.Sprintf("must be no more than %[2]d characters, and has %[1]d", len(name), validation.LabelValueMaxLength))
	}
	if problems != nil {
		return "", 0, &Error{Version: name, Err: fmt.Errorf(
			"invalid release version %q: cannot be part of the name of a ConfigMap: %s; use a version such as 4.22.3",
			release, strings.Join(problems, "; "))}
	}
	return name, number, nil
}

// Same reports whether a version has this content ID and these unmanaged CRDs, in any
// order.
func Same(version v1alpha1.Version, contentID digest.Digest, unmanaged []string) bool {
	return string(version.ContentID) == contentID.String() && SameUnmanaged(version, unmanaged)
}

// SameUnmanaged reports whether a version has these unmanaged CRDs, in any order.
func SameUnmanaged(version v1alpha1.Version, unmanaged []string) bool {
	return sets.New(version.UnmanagedCRDs...).Equal(sets.New(unmanaged...))
}
