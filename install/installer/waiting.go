// SPDX-License-Identifier: Apache-2.0

package installer

import "time"

// waitingError ends an attempt until pods have started or ended. Its text tells which.
type waitingError string

func (e waitingError) Error() string { return string(e) }

// waitingRecheck is the time until these pods are read again.
const waitingRecheck = 2 * time.Second
