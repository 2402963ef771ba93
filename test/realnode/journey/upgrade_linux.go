// SPDX-License-Identifier: Apache-2.0

package journey

import (
	"context"
	"time"
)

// upgrade upgrades all providers, while a client works.
func (j *Journey) upgrade(ctx context.Context) error {
	next, err := j.makeRelease(ctx, "1.1.0")
	if err != nil {
		return err
	}
	u := j.work(ctx)
	began := time.Now()
	err = j.roll(ctx, next)
	if err == nil {
		err = j.installed(ctx, next)
	}
	j.Report("release %s is installed after %.0f s", next.version, time.Since(began).Seconds())
	time.Sleep(15 * time.Second) // the old pods end after the new ones are ready
	u.report(j)
	if err != nil {
		return err
	}
	return j.nothingLost(ctx)
}
