// SPDX-License-Identifier: Apache-2.0

package version

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/configmap"
	"github.com/capi-installer/capi-installer/imagesjson"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/setting"
	"github.com/capi-installer/capi-installer/install/status"
)

// failure returns the outcome of an error.
func failure(of reason.Reason, err error) status.Outcome {
	return status.Outcome{Reason: of, Err: err}
}

// inputs determine the version that should be installed.
type inputs struct {
	operand.Inputs
	// platforms are the platforms of the release's other images, for later
	// reconciles that cannot read those images.
	platforms operand.ImagePlatforms
	// former are the values of Secrets in the desired version.
	former setting.Secrets
}

// readInputs returns the bundles for the platforms from the images and the transport
// ConfigMaps of the release. The outcome is AsExpected, or the reason why no version
// can be decided on.
func (r *Reconciler) readInputs(ctx context.Context, files releaseFiles, in clusterInputs, cluster *v1alpha1.ClusterAPI, existing []corev1.ConfigMap) (inputs, status.Outcome) {
	images, errImages := files.parse(r.ImagesJSON, cluster.Spec.ImageOverrides)
	platforms, outcome := r.Platforms, status.Outcome{Reason: reason.AsExpected}
	if len(platforms) == 0 && files.release != "" {
		platforms, outcome = in.platforms(files.release, cluster)
	}
	if outcome.Reason == reason.AsExpected && errImages != nil {
		outcome = failure(imagesReason(errImages), errImages)
	}
	if outcome.Reason != reason.AsExpected {
		return inputs{}, outcome
	}
	transported, others, err := transport{r.Client, r.Live, files.release, r.Namespaces.Operand}.bundles(ctx)
	if err != nil {
		return inputs{}, failure(reason.WriteFailed, err)
	}
	results, err := extractor.Images{Images: images, Fetcher: r.Fetcher}.Results(ctx)
	if err != nil {
		return inputs{}, failure(reason.ImageUnreadable, err)
	}
	results = append(knownPlatforms(existing).Complete(results), transported...)
	bundles, err := choose(files.release, platforms, results, others, cluster)
	if err != nil {
		return inputs{}, selectOutcome(err)
	}
	former := setting.Secrets{}
	if len(in.secrets) > 0 {
		if former, err = r.storage().formerSecrets(ctx, cluster.Status.DesiredVersion); err != nil {
			return inputs{}, failure(reason.WriteFailed, err)
		}
	}
	settings, err := in.settings(cluster.Spec, bundles, former, r.Namespaces.Operator)
	if err != nil {
		return inputs{}, failure(reason.ReferenceMissing, err)
	}
	r.Mask.Add(settings.Secrets.Values)
	settings.Namespaces = r.Namespaces.Providers()
	settings.Unselected, settings.Unused = operand.Unselected(platforms, results)
	return inputs{
		operand.Inputs{Bundles: bundles, Variables: in.variables(r.Variables), Settings: settings},
		operand.OtherPlatforms(platforms, results), former,
	}, status.Outcome{Reason: reason.AsExpected}
}

// choose selects the bundles for the platforms. It returns an error if that would
// uninstall a provider of the desired version because an input is missing.
func choose(release string, platforms operand.Platforms, results []extractor.Result, others []*configmap.OtherError, cluster *v1alpha1.ClusterAPI) ([]extractor.Bundle, error) {
	bundles, err := operand.Select(platforms, results)
	if errors.As(err, new(*operand.MissingError)) && len(others) > 0 {
		return nil, errors.Join(err, join(others))
	}
	desired := cluster.Status.Version(cluster.Status.DesiredVersion)
	if err != nil || desired == nil {
		return bundles, err
	}
	err = join(pendingBundles(desired.Components, bundles, others))
	if err == nil && desired.Name == fmt.Sprintf("%s-%d", release, desired.Revision) {
		err = droppedBundles(desired.Components, bundles, results)
	}
	return bundles, errors.Join(operand.CheckDropped(desired.Components, bundles, results), err)
}

// selectOutcome returns the outcome of joined errors of the inputs: the gravest of their
// reasons. A provider that is missing because transport ConfigMaps are incomplete or
// ignored is not an error of its own.
func selectOutcome(err error) status.Outcome {
	unguarded, incomplete := errors.As(err, new(*PolicyError)), errors.As(err, new(*configmap.OtherError))
	absent := errors.As(err, new(*operand.MissingError)) || errors.As(err, new(*operand.DroppedError))
	var found []status.Outcome
	for _, candidate := range []struct {
		applies bool
		status.Outcome
	}{
		{errors.Is(err, extractor.ErrUntrusted), status.Outcome{Reason: reason.ImageUntrusted}},
		{errors.Is(err, extractor.ErrInvalid), status.Outcome{Reason: reason.BundleInvalid}},
		{absent && !unguarded && !incomplete || errors.As(err, new(*operand.DuplicateError)), status.Outcome{Reason: reason.ComponentMissing}},
		{unguarded, status.Outcome{Reason: reason.TransportUnguarded}},
		{incomplete, status.Outcome{Reason: reason.TransportIncomplete}},
		{errors.As(err, new(*extractor.UntrustedError)), status.Outcome{Reason: reason.ImageUntrusted, Undecided: true}},
		{errors.As(err, new(*extractor.Error)), status.Outcome{Reason: reason.ImageUnreadable}},
		{errors.As(err, new(*configmap.Error)), status.Outcome{Reason: reason.TransportIncomplete}},
		{errors.As(err, new(*operand.ImageError)), status.Outcome{Reason: reason.ImageUnreadable}},
	} {
		if candidate.applies {
			found = append(found, candidate.Outcome)
		}
	}
	if found == nil {
		found = []status.Outcome{{Reason: reason.BundleInvalid}}
	}
	outcome := status.Gravest(found...)
	outcome.Err = err
	return outcome
}

// releaseFile is the file next to images.json that names its release. It may be missing if the program has a release of its own.
const releaseFile = "release-version"

// StaleError reports that images.json belongs to another release than the program:
// either the mount or the program is outdated.
type StaleError struct {
	// Path is the path of images.json.
	Path string
	// Is is the release of images.json, Want the release of the program.
	Is, Want string
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("%s belongs to release %s (from %s in the same directory), want release %s of this installer", e.Path, e.Is, releaseFile, e.Want)
}

func imagesReason(err error) reason.Reason {
	if errors.As(err, new(*StaleError)) {
		return reason.ReleaseMismatch
	}
	return reason.ImagesInvalid
}

// releaseFiles are the files of a release: images.json and the release-version next to it.
type releaseFiles struct {
	// version is the release of images.json; the program's without a file release-version.
	version string
	// release is the running release: the program's, or else version.
	release string
	images  []byte
	// err is the error of reading them.
	err error
}

// releaseSource reads the files of the release.
type releaseSource struct {
	// path is the path of images.json, and release the release of the program; empty if the files name it.
	path, release string
}

// read reads the files of the release. Both must come from the same directory, but an
// update of a mounted ConfigMap replaces a symbolic link and removes the previous
// directory, so it tries three times.
func (s releaseSource) read() (files releaseFiles) {
	for range 3 {
		files, files.err = s.readOnce()
		if !errors.Is(files.err, fs.ErrNotExist) {
			break
		}
	}
	files.release = cmp.Or(s.release, files.version)
	return files
}

func (s releaseSource) readOnce() (releaseFiles, error) {
	path, err := filepath.EvalSymlinks(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		if flat, flatErr := flatImages(filepath.Dir(s.path)); flat != nil || flatErr != nil {
			return releaseFiles{version: s.release, images: flat}, flatErr
		}
	}
	if err != nil {
		return releaseFiles{}, fmt.Errorf("reading images.json: %w", err)
	}
	release, err := os.ReadFile(filepath.Join(filepath.Dir(path), releaseFile))
	if errors.Is(err, fs.ErrNotExist) {
		release, err = []byte(s.release), nil
	}
	if err != nil {
		return releaseFiles{}, fmt.Errorf("reading the release of images.json: %w", err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return releaseFiles{}, fmt.Errorf("reading images.json: %w", err)
	}
	return releaseFiles{version: strings.TrimSpace(string(release)), images: data}, nil
}

// parse returns the images of the running release with the overrides. path is the path of images.json.
func (files releaseFiles) parse(path string, overrides []v1alpha1.ImageOverride) (imagesjson.Images, error) {
	if files.err != nil {
		return nil, files.err
	}
	if files.release == "" {
		return nil, fmt.Errorf("the file %s next to %s must name the release", releaseFile, path)
	}
	if files.version != files.release {
		return nil, &StaleError{Path: path, Is: files.version, Want: files.release}
	}
	images, err := imagesjson.Parse(files.images)
	if err != nil {
		return nil, fmt.Errorf("reading images.json: %w", err)
	}
	images, err = images.Override(overrides)
	if err != nil {
		return nil, fmt.Errorf("applying spec.imageOverrides: %w", err)
	}
	return images, nil
}

// mountedData is the symbolic link to the current data in a directory where a ConfigMap is mounted. An update replaces it.
const mountedData = "..data"

// flatImages reads the image list of cluster-capi-operator and returns it as
// images.json. The list is a mounted ConfigMap whose keys are the keys of
// images.json and whose values are the references. It returns nil if the directory
// is not a mounted ConfigMap or has only the release version.
func flatImages(dir string) ([]byte, error) {
	folder, err := filepath.EvalSymlinks(filepath.Join(dir, mountedData))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the image list in %s: %w", dir, err)
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("reading the image list in %s: %w", dir, err)
	}
	images := map[string]string{}
	for _, entry := range entries {
		if entry.IsDir() || entry.Name() == releaseFile {
			continue
		}
		reference, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("reading the image list in %s: %w", dir, err)
		}
		images[entry.Name()] = strings.TrimSpace(string(reference))
	}
	if len(images) == 0 {
		return nil, nil
	}
	return json.Marshal(images)
}
