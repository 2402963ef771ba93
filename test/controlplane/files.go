// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// files is the cluster's directory: keys and certificates, a kubeconfig for each user, etcd's data and the logs.
type files struct{ dir, logs string }

func (f files) pki(name string) string { return filepath.Join(f.dir, "pki", name) }
func (f files) kubeconfig(user string) string {
	return filepath.Join(f.dir, strings.TrimPrefix(user, "system:")+".kubeconfig")
}
func (f files) egress() string { return filepath.Join(f.dir, "egress.yaml") }
func (f files) data() string   { return filepath.Join(f.dir, "etcd") }

// users are the users with a client certificate, and their groups. The controller manager uses one identity for all its
// controllers, so it needs all permissions.
var users = map[string][]string{
	"admin":                          {"system:masters"},
	"system:kube-controller-manager": {"system:masters"},
	"system:kube-scheduler":          nil,
	"kwok":                           {"system:masters"},
}

// write creates the files of the directory, with new keys, for an API server at url.
func (f files) write(url string) error {
	for _, folder := range []string{f.pki(""), f.logs} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return fmt.Errorf("making the cluster's folder: %w", err)
		}
	}
	ca, err := newAuthority("kubernetes")
	if err != nil {
		return fmt.Errorf("making an authority: %w", err)
	}
	serving, err := ca.server("kube-apiserver")
	if err != nil {
		return fmt.Errorf("making the certificate of kube-apiserver: %w", err)
	}
	if err := f.writePair("ca", "apiserver", ca, serving); err != nil {
		return err
	}
	public, private, err := signingPair()
	if err != nil {
		return fmt.Errorf("making the keys of service accounts: %w", err)
	}
	if err := writeSecret(f.pki("sa.pub"), public); err != nil {
		return err
	}
	if err := writeSecret(f.pki("sa.key"), private); err != nil {
		return err
	}
	return f.writeUsers(ca, url)
}

func (f files) writePair(authorityName, name string, ca *authority, p pair) error {
	for file, content := range map[string][]byte{
		authorityName + ".crt": ca.pem, name + ".crt": p.certificate, name + ".key": p.key,
	} {
		if err := writeSecret(f.pki(file), content); err != nil {
			return err
		}
	}
	return nil
}

func (f files) writeUsers(ca *authority, url string) error {
	for user, groups := range users {
		client, err := ca.client(user, groups...)
		if err != nil {
			return fmt.Errorf("making the certificate of %s: %w", user, err)
		}
		login := &clientcmdapi.AuthInfo{ClientCertificateData: client.certificate, ClientKeyData: client.key}
		if err := writeKubeconfig(f.kubeconfig(user), url, ca.pem, user, "", login); err != nil {
			return err
		}
	}
	return nil
}

// writeKubeconfig writes a self-contained kubeconfig.
func writeKubeconfig(path, url string, ca []byte, user, namespace string, login *clientcmdapi.AuthInfo) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["controlplane"] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: ca}
	config.AuthInfos[user] = login
	config.Contexts["controlplane"] = &clientcmdapi.Context{Cluster: "controlplane", AuthInfo: user, Namespace: namespace}
	config.CurrentContext = "controlplane"
	content, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("writing the kubeconfig of %s: %w", user, err)
	}
	return writeSecret(path, content)
}
