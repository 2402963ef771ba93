// SPDX-License-Identifier: Apache-2.0

// Package rehearsal proves, before the first object of a release is written, that its new pods can start: they are admitted, scheduled
// and pulled, and have their volumes. A pod of a rehearsal has the spec of the new pods, but its containers run a program that does
// nothing. An init container copies it from the installer's own image, so no program of a provider runs.
package rehearsal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/preflight"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

const (
	// Command is the command of the program: it copies itself to its argument, and does nothing without one.
	Command = "rehearse"
	// copier is the name of the container that copies the program, and of the volume with the copy.
	copier = "capi-installer-rehearsal"
	// folder is the mount point of the volume.
	folder = "/" + copier
	// lifetime is the time after which kubelet ends a pod that the installer has not removed.
	lifetime = time.Hour
)

// Program is the program that does nothing: the installer's own.
type Program struct {
	// Image and PullPolicy have the values of the installer's container.
	Image      string
	PullPolicy corev1.PullPolicy
	// Path is the path of the program in the image.
	Path string
}

// Release is a release that is going to be installed.
type Release struct {
	// Version is the name of the version.
	Version string
	// Phases have the objects that are going to be written, and Installed the objects of the installed version.
	Phases    []revision.Phase
	Installed map[object.Identity]*unstructured.Unstructured
	// Namespaces are the namespaces with pods of rehearsals.
	Namespaces []string
}

// Plan is a rehearsal.
type Plan struct {
	// Pods are going to be created. Their names are unique for the version.
	Pods []*corev1.Pod
	// Omitted are parts of the release that are not rehearsed, each with the cause.
	Omitted []string
}

// Of returns the rehearsal of a release. It covers the Deployments whose pods change.
func Of(release Release, program Program) (Plan, error) {
	var plan Plan
	written := release.written()
	for _, obj := range revision.Objects(release.Phases) {
		if object.PodTemplate(obj) == nil {
			continue
		}
		pod, omitted, err := release.pod(obj, written, program)
		if err != nil {
			return Plan{}, fmt.Errorf("preparing the rehearsal of %s: %w", object.Describe(obj), err)
		}
		if pod != nil {
			plan.Pods = append(plan.Pods, pod)
		}
		if omitted != "" {
			plan.Omitted = append(plan.Omitted, object.Describe(obj)+" ("+omitted+")")
		}
	}
	return plan, nil
}

// written returns all texts in the objects of the release, except in pod templates and CRDs: among them are the names of Secrets, ConfigMaps
// and volume claims that the release creates, or requests from another controller with an annotation or a field.
func (r Release) written() sets.Set[string] {
	found := sets.New[string]()
	var collect func(value any)
	collect = func(value any) {
		switch value := value.(type) {
		case string:
			found.Insert(value)
		case map[string]any:
			for _, item := range value {
				collect(item)
			}
		case []any:
			for _, item := range value {
				collect(item)
			}
		}
	}
	for _, obj := range revision.Objects(r.Phases) {
		if object.PodTemplate(obj) == nil && !object.IsCRD(obj) {
			collect(obj.Object)
		}
	}
	return found
}

// pod returns the pod that rehearses the pods of an object, and the cause of an omission.
func (r Release) pod(obj *unstructured.Unstructured, written sets.Set[string], program Program) (pod *corev1.Pod, omitted string, err error) {
	before := r.Installed[object.IdentityOf(obj)]
	switch {
	case before != nil && object.Equal(object.PodTemplate(before), object.PodTemplate(obj)):
		return nil, "", nil
	case object.GroupKind(obj) != object.Deployment:
		return nil, "only Deployments are rehearsed", nil
	case before == nil:
		return nil, "it is new", nil
	case !slices.Contains(r.Namespaces, obj.GetNamespace()):
		return nil, "only the namespaces of providers (" + strings.Join(r.Namespaces, ", ") + ") are rehearsed", nil
	}
	old, next := &appsv1.Deployment{}, &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(before.Object, old); err != nil {
		return nil, "", err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, next); err != nil {
		return nil, "", err
	}
	if next.Spec.Replicas != nil && *next.Spec.Replicas == 0 {
		return nil, "", nil
	}
	if preflight.Surge(next.Spec) == 0 {
		return nil, "its old pod ends before the new one starts", nil
	}
	pod = &corev1.Pod{Spec: *next.Spec.Template.Spec.DeepCopy()}
	pod.Namespace, pod.Name = obj.GetNamespace(), podName(obj.GetName(), r.Version)
	// Without the labels of the template, no Service, NetworkPolicy or PodDisruptionBudget selects the pod. Annotations can decide about its admission.
	pod.Labels, pod.Annotations = map[string]string{v1alpha1.RehearsalLabel: r.Version}, next.Spec.Template.Annotations
	left := newReferences(&pod.Spec, old.Spec.Template.Spec, written)
	if left.Len() > 0 {
		omitted = "without " + strings.Join(sets.List(left), ", ") + ": the release writes it"
	}
	pod.Spec.ServiceAccountName, pod.Spec.DeprecatedServiceAccount = old.Spec.Template.Spec.ServiceAccountName, "" // it exists
	doNothing(&pod.Spec, program)
	return pod, omitted, nil
}

// podName returns the name of the pod for a Deployment. The number of a version is never used again.
func podName(deployment, version string) string {
	const limit = 200 // of 253
	return fmt.Sprintf("%.*s-rehearsal-%s", limit, deployment, version[strings.LastIndex(version, "-")+1:])
}

// newReferences removes the references to Secrets, ConfigMaps and volume claims that the release writes, and returns their names. They need not
// exist yet, or have the new content. A reference that the installed pods have in the same form stays.
func newReferences(spec *corev1.PodSpec, old corev1.PodSpec, written sets.Set[string]) sets.Set[string] {
	left := sets.New[string]()
	awaits := func(names ...string) bool {
		awaited := written.Intersection(sets.New(names...).Delete(""))
		left.Insert(awaited.UnsortedList()...)
		return awaited.Len() > 0
	}
	for i, volume := range spec.Volumes {
		if !contains(old.Volumes, volume) && awaits(sourcesOf(volume)...) {
			spec.Volumes[i].VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
		}
	}
	var env []corev1.EnvVar
	var envFrom []corev1.EnvFromSource
	eachContainer(&old, func(c *corev1.Container) { env, envFrom = append(env, c.Env...), append(envFrom, c.EnvFrom...) })
	eachContainer(spec, func(c *corev1.Container) {
		c.Env = slices.DeleteFunc(c.Env, func(v corev1.EnvVar) bool { return !contains(env, v) && awaits(sourceOf(v)) })
		c.EnvFrom = slices.DeleteFunc(c.EnvFrom, func(from corev1.EnvFromSource) bool {
			return !contains(envFrom, from) && (from.SecretRef != nil && awaits(from.SecretRef.Name) || from.ConfigMapRef != nil && awaits(from.ConfigMapRef.Name))
		})
	})
	return left
}

// contains reports whether a list has an equal item.
func contains[T any](list []T, item T) bool {
	return slices.ContainsFunc(list, func(other T) bool { return equality.Semantic.DeepEqual(other, item) })
}

// sourcesOf returns the names of the Secrets, ConfigMaps and claims of a volume.
func sourcesOf(volume corev1.Volume) (names []string) {
	projected := []corev1.VolumeProjection{}
	switch {
	case volume.Secret != nil:
		names = append(names, volume.Secret.SecretName)
	case volume.ConfigMap != nil:
		names = append(names, volume.ConfigMap.Name)
	case volume.PersistentVolumeClaim != nil:
		names = append(names, volume.PersistentVolumeClaim.ClaimName)
	case volume.Projected != nil:
		projected = volume.Projected.Sources
	}
	for _, source := range projected {
		if source.Secret != nil {
			names = append(names, source.Secret.Name)
		}
		if source.ConfigMap != nil {
			names = append(names, source.ConfigMap.Name)
		}
	}
	return names
}

// sourceOf returns the name of the Secret or ConfigMap of an environment variable; empty if it has none.
func sourceOf(v corev1.EnvVar) string {
	switch {
	case v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil:
		return v.ValueFrom.SecretKeyRef.Name
	case v.ValueFrom != nil && v.ValueFrom.ConfigMapKeyRef != nil:
		return v.ValueFrom.ConfigMapKeyRef.Name
	}
	return ""
}

// doNothing replaces the programs of all containers.
func doNothing(spec *corev1.PodSpec, program Program) {
	eachContainer(spec, func(c *corev1.Container) {
		c.Command, c.Args, c.Stdin, c.TTY = []string{folder + "/program", Command}, nil, false, false
		c.Ports, c.Lifecycle, c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = nil, nil, nil, nil, nil
		c.RestartPolicy, c.RestartPolicyRules, c.ResizePolicy = nil, nil, nil
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: copier, MountPath: folder, ReadOnly: true})
	})
	spec.RestartPolicy, spec.ReadinessGates = corev1.RestartPolicyNever, nil
	spec.ActiveDeadlineSeconds, spec.TerminationGracePeriodSeconds = new(int64(lifetime.Seconds())), new(int64(1))
	spec.AutomountServiceAccountToken = new(false)
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: copier, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	spec.InitContainers = slices.Insert(spec.InitContainers, 0, copying(*spec, program))
}

// eachContainer calls do with all containers.
func eachContainer(spec *corev1.PodSpec, do func(*corev1.Container)) {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			do(&containers[i])
		}
	}
}

// copying returns the container that copies the program. It needs no more resources than the first container, which runs after it, and is
// admitted wherever the most restrictive pods are.
func copying(spec corev1.PodSpec, program Program) corev1.Container {
	out := corev1.Container{
		Name: copier, Image: program.Image, ImagePullPolicy: program.PullPolicy,
		Command:      []string{program.Path, Command, folder + "/program"},
		VolumeMounts: []corev1.VolumeMount{{Name: copier, MountPath: folder}},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), RunAsNonRoot: new(true),
			Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
	if len(spec.Containers) > 0 {
		out.Resources = *spec.Containers[0].Resources.DeepCopy()
		out.Resources.Claims = nil
	}
	if s := spec.SecurityContext; s != nil && s.RunAsUser != nil && *s.RunAsUser == 0 {
		out.SecurityContext.RunAsNonRoot = nil // the container has the user of the pod
	}
	return out
}
