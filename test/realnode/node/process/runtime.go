// SPDX-License-Identifier: Apache-2.0

//go:build linux

package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	cri "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	fakes "k8s.io/cri-api/pkg/apis/testing"
)

// RuntimeOptions are the options of the container runtime.
type RuntimeOptions struct {
	// Dir is the folder of the runtime. In Dir/containers, the file ID.pid has the process ID of a container.
	Dir string
	// Registry is the path of a file with a Registry.
	Registry string
	// Network is the CIDR of the network of pods.
	Network string
}

// Name is the name of the runtime: the ID of a container in the status of a pod is Name://ID.
const Name = "process"

// runtimeService is a container runtime. The fake of the CRI has the records of sandboxes and containers; behind them are
// namespaces and processes.
type runtimeService struct {
	*fakes.FakeRuntimeService
	dir     string
	images  *imageService
	network *network

	mu         sync.Mutex
	sandboxes  map[string]*sandbox
	containers map[string]*container
}

func newRuntime(options RuntimeOptions) (cri.RuntimeService, cri.ImageManagerService, error) {
	r := &runtimeService{
		FakeRuntimeService: fakes.NewFakeRuntimeService(), dir: filepath.Join(options.Dir, "containers"),
		sandboxes: map[string]*sandbox{}, containers: map[string]*container{},
		images: &imageService{FakeImageService: fakes.NewFakeImageService(), registry: options.Registry, dir: filepath.Join(options.Dir, "images"), pulled: map[string]image{}},
	}
	r.FakeStatus = &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Status: true}, {Type: runtimeapi.NetworkReady, Status: true},
	}}
	var err error
	r.network, err = newNetwork(options.Network)
	return r, r.images, errors.Join(err, os.MkdirAll(r.dir, 0o700))
}

// Version returns the name of the runtime.
func (r *runtimeService) Version(ctx context.Context, version string) (*runtimeapi.VersionResponse, error) {
	response, err := r.FakeRuntimeService.Version(ctx, version)
	if err == nil {
		response.RuntimeName = Name
	}
	return response, err
}

// RunPodSandbox makes the network namespace of a pod.
func (r *runtimeService) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, err := r.network.connect()
	if err != nil {
		return "", fmt.Errorf("making the network of a pod: %w", err)
	}
	fakes.FakePodSandboxIPs = []string{s.address} // guarded by mu
	id, err := r.FakeRuntimeService.RunPodSandbox(ctx, config, handler)
	if err != nil {
		return "", errors.Join(err, s.remove())
	}
	dns := config.GetDnsConfig()
	var lines []string
	for _, server := range dns.GetServers() {
		lines = append(lines, "nameserver "+server)
	}
	lines = append(lines, "search "+strings.Join(dns.GetSearches(), " "), "options "+strings.Join(dns.GetOptions(), " "), "")
	s.resolver, s.logs = filepath.Join(r.dir, id+".resolv.conf"), config.LogDirectory
	r.sandboxes[id] = s
	return id, os.WriteFile(s.resolver, []byte(strings.Join(lines, "\n")), 0o644)
}

// StopPodSandbox ends all processes of a pod and removes its network.
func (r *runtimeService) StopPodSandbox(ctx context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.containers {
		if c.sandbox == id {
			c.stop(0)
		}
	}
	if s := r.sandboxes[id]; s != nil {
		delete(r.sandboxes, id)
		if err := s.remove(); err != nil {
			return fmt.Errorf("removing the network of a pod: %w", err)
		}
	}
	return r.FakeRuntimeService.StopPodSandbox(ctx, id)
}

// CreateContainer prepares a container.
func (r *runtimeService) CreateContainer(ctx context.Context, sandboxID string, config *runtimeapi.ContainerConfig, pod *runtimeapi.PodSandboxConfig) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sandboxes[sandboxID]
	if s == nil {
		return "", fmt.Errorf("sandbox %s not found", sandboxID)
	}
	image, err := r.images.get(config.Image.Image)
	if err != nil {
		return "", err
	}
	id, err := r.FakeRuntimeService.CreateContainer(ctx, sandboxID, config, pod)
	if err != nil {
		return "", err
	}
	c := newContainer(image, config, s.resolver)
	c.sandbox, c.namespace, c.Hostname = sandboxID, s.namespace, pod.Hostname
	c.log, c.file = filepath.Join(s.logs, config.LogPath), filepath.Join(r.dir, id)
	r.containers[id] = c
	r.record(id, func(status *runtimeapi.ContainerStatus) { status.LogPath, status.Mounts = c.log, config.Mounts })
	return id, nil
}

// StartContainer starts the process of a container.
func (r *runtimeService) StartContainer(ctx context.Context, id string) error {
	c := r.container(id)
	if c == nil {
		return fmt.Errorf("container %s not found", id)
	}
	if err := c.start(); err != nil {
		return err
	}
	if err := r.FakeRuntimeService.StartContainer(ctx, id); err != nil {
		return err
	}
	go func() {
		<-c.ended
		r.record(id, func(status *runtimeapi.ContainerStatus) {
			status.State, status.FinishedAt, status.ExitCode = runtimeapi.ContainerState_CONTAINER_EXITED, time.Now().UnixNano(), c.exitCode
			status.Reason = "Completed"
			if c.exitCode != 0 {
				status.Reason = "Error"
			}
		})
	}()
	return nil
}

// StopContainer ends the process of a container, and kills it after a number of seconds.
func (r *runtimeService) StopContainer(ctx context.Context, id string, timeout int64) error {
	if c := r.container(id); c != nil {
		c.stop(time.Duration(timeout) * time.Second)
	}
	return nil // its end is recorded by StartContainer
}

// RemoveContainer removes the records of a container.
func (r *runtimeService) RemoveContainer(ctx context.Context, id string) error {
	if c := r.container(id); c != nil {
		c.stop(0)
		r.mu.Lock()
		delete(r.containers, id)
		r.mu.Unlock()
	}
	return r.FakeRuntimeService.RemoveContainer(ctx, id)
}

func (r *runtimeService) container(id string) *container {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.containers[id]
}

// record changes the status of a container.
func (r *runtimeService) record(id string, change func(*runtimeapi.ContainerStatus)) {
	r.FakeRuntimeService.Lock()
	defer r.FakeRuntimeService.Unlock()
	if c := r.Containers[id]; c != nil {
		change(&c.ContainerStatus)
	}
}
