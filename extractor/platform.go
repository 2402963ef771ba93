// SPDX-License-Identifier: Apache-2.0

package extractor

import "regexp"

var platformName = regexp.MustCompile(`^[A-Za-z]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?$`)

// IsPlatformName reports whether a text can name a platform of a cluster outside
// OpenShift: a letter, followed by letters, digits and dashes.
func IsPlatformName(text string) bool { return platformName.MatchString(text) }
