// SPDX-License-Identifier: Apache-2.0

package journey

import (
	"context"
	"errors"
	"time"
)

// pullFails rolls out a release while the node has no credentials.
func (j *Journey) pullFails(ctx context.Context) error {
	broken, err := j.makeRelease(ctx, "1.3.0")
	if err != nil {
		return err
	}
	if err := j.node.AllowPulls(false); err != nil {
		return err
	}
	return errors.Join(j.goBack(ctx, broken, "ImagePull"), j.node.AllowPulls(true))
}

// managerCrashes rolls out a release whose core provider has a manager that ends at once.
func (j *Journey) managerCrashes(ctx context.Context) error {
	broken, err := j.makeRelease(ctx, "1.4.0", variation{key: "core", program: probeFile})
	if err != nil {
		return err
	}
	return j.goBack(ctx, broken, "CrashLoopBackOff")
}

// goBack rolls out a broken release, waits until status names the cause, and rolls back. The Machines run meanwhile.
func (j *Journey) goBack(ctx context.Context, broken release, cause string) error {
	good := j.current
	if err := j.roll(ctx, broken); err != nil {
		return err
	}
	began := time.Now()
	if err := await(ctx, "status names "+cause, func(ctx context.Context) error { return j.shows(ctx, cause) }); err != nil {
		return err
	}
	j.Report("status names %s after %.0f s", cause, time.Since(began).Seconds())
	if err := j.nothingLost(ctx); err != nil {
		return err
	}
	began = time.Now()
	if err := errors.Join(j.roll(ctx, good), j.installed(ctx, good)); err != nil {
		return err
	}
	j.Report("release %s is installed again after %.0f s", good.version, time.Since(began).Seconds())
	return j.nothingLost(ctx)
}
