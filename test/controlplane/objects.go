// SPDX-License-Identifier: Apache-2.0

//go:build unix

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const nodeName = "node"

func (c *Cluster) serving(ctx context.Context) error {
	return c.client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

// createNode creates the node that kwok simulates, with capacity for the pods of any test.
func (c *Cluster) createNode(ctx context.Context) error {
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"), corev1.ResourcePods: resource.MustParse("1000"),
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName, Labels: map[string]string{
			corev1.LabelHostname: nodeName, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
			"node-role.kubernetes.io/control-plane": "", "node-role.kubernetes.io/master": "",
		}},
		Status: corev1.NodeStatus{Capacity: room, Allocatable: room},
	}
	if _, err := c.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the node: %w", err)
	}
	return nil
}

func (c *Cluster) nodeReady(ctx context.Context) error {
	node, err := c.client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return errors.New("the node is not Ready")
}

// namespaceReady returns an error until a namespace has the default service account, without which pods cannot be
// created in it.
func (c *Cluster) namespaceReady(ctx context.Context, namespace string) error {
	_, err := c.client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
	return err
}

// Namespace creates a namespace with a new name. Pods can be created in it immediately. It remains when the test ends:
// its deletion would be one or two requests for each resource of the API server, and the cluster ends soon.
func (c *Cluster) Namespace(tb testing.TB) string {
	tb.Helper()
	created, err := c.client.CoreV1().Namespaces().Create(tb.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		tb.Fatalf("creating a namespace: %v", err)
	}
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	ready := func(ctx context.Context) error { return c.namespaceReady(ctx, created.Name) }
	if err := c.await(ctx, "kube-controller-manager", ready); err != nil {
		tb.Fatalf("waiting for the namespace %s: %v", created.Name, withTail(err, false))
	}
	return created.Name
}

// tokenLife is the lifetime of the token of ServiceAccount.
const tokenLife = 24 * time.Hour

// ServiceAccount returns the path of a kubeconfig with a token of a service account, valid for 24 hours. The namespace
// must exist; the service account is created if it does not exist.
func (c *Cluster) ServiceAccount(ctx context.Context, namespace, name string) (string, error) {
	accounts := c.client.CoreV1().ServiceAccounts(namespace)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := accounts.Create(ctx, account, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return "", fmt.Errorf("creating the service account %s/%s: %w", namespace, name, err)
	}
	seconds := int64(tokenLife.Seconds())
	token, err := accounts.CreateToken(ctx, name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("requesting a token of the service account %s/%s: %w", namespace, name, err)
	}
	folder := filepath.Join(c.Dir, "serviceaccounts", namespace)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", fmt.Errorf("making a folder for kubeconfigs: %w", err)
	}
	path := filepath.Join(folder, name+".kubeconfig")
	login := &clientcmdapi.AuthInfo{Token: token.Status.Token}
	return path, writeKubeconfig(path, c.Config.Host, c.Config.CAData, name, namespace, login)
}
