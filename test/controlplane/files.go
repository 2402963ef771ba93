// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// files is the cluster's directory: keys and certificates, a kubeconfig for each user, etcd's data and the logs.
type files struct {
	dir, logs string
	users     map[string][]string // the groups of each user
}

func (f files) pki(name string) string { return filepath.Join(f.dir, "pki", name) }
func (f files) kubeconfig(user string) string {
	return filepath.Join(f.dir, strings.TrimPrefix(user, "system:")+".kubeconfig")
}
func (f files) egress() string { return filepath.Join(f.dir, "egress.yaml") }
func (f files) data() string   { return filepath.Join(f.dir, "etcd") }

// users are the users with a token, and their groups. The API server verifies a client certificate at each request, but
// reads the tokens once. The controller manager uses one identity for all its controllers, so it needs all permissions.
var users = map[string][]string{
	"admin":                          {"system:masters"},
	"system:kube-controller-manager": {"system:masters"},
	"system:kube-scheduler":          nil,
	"kwok":                           {"system:masters"},
}

// write creates the files of the directory, with new keys, for an API server at an IP address and a port.
func (f files) write(host string, port int) error {
	for _, folder := range []string{f.pki(""), f.logs} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return fmt.Errorf("making the cluster's folder: %w", err)
		}
	}
	certificate, key, err := servingCertificate("kube-apiserver", host)
	if err != nil {
		return fmt.Errorf("making the certificate of kube-apiserver: %w", err)
	}
	public, private, err := signingPair()
	if err != nil {
		return fmt.Errorf("making the keys of service accounts: %w", err)
	}
	for name, content := range map[string][]byte{
		"apiserver.crt": certificate, "apiserver.key": key, "sa.pub": public, "sa.key": private,
	} {
		if err := writeSecret(f.pki(name), content); err != nil {
			return err
		}
	}
	return f.writeUsers(certificate, "https://"+net.JoinHostPort(host, strconv.Itoa(port)))
}

// writeUsers creates the kubeconfig of each user, and the list of the tokens for the API server: the columns are token,
// name, UID and groups.
func (f files) writeUsers(ca []byte, url string) error {
	var tokens strings.Builder
	for user, groups := range f.users {
		login := &clientcmdapi.AuthInfo{Token: rand.Text()}
		if err := writeKubeconfig(f.kubeconfig(user), url, ca, user, "", login); err != nil {
			return err
		}
		fmt.Fprintf(&tokens, "%s,%s,%[2]s,%q\n", login.Token, user, strings.Join(groups, ","))
	}
	return writeSecret(f.pki("tokens.csv"), []byte(tokens.String()))
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
