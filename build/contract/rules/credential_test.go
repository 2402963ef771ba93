// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
)

// r repeats a character, so that this file contains no credentials.
func r(count int) string { return strings.Repeat("7", count) }

// TestCredentials_InAllPlaces: a token of each form is found in an environment variable, a ConfigMap and a Secret, and not repeated.
func TestCredentials_InAllPlaces(t *testing.T) {
	t.Parallel()
	for name, token := range map[string]string{
		"private key": "-----BEGIN EC " + "PRIVATE KEY-----", "age": "AGE-SECRET-KEY-1" + r(58), "of AWS": "AKIA" + r(16), "Bedrock": "ABSK" + r(110),
		"Alibaba": "LTAI" + r(20), "client secret of Azure": r(3) + "8Q~" + r(32), "account key": "AccountKey=" + r(86) + "==", "key of Google": "AIza" + r(35),
		"OAuth": "GOCSPX-" + r(28), "DigitalOcean": "dop_v1_" + r(64), "Cloudflare": "v1.0-" + r(24) + "-" + r(146), "Fly": "fo1_" + r(43),
		"Heroku": "HRKU-AA" + r(58), "Scalingo": "tk-us-" + r(48), "OpenShift": "sha256~" + r(43), "Rancher": "token-abcde:" + r(54),
		"service account": "eyJ" + r(20) + ".eyJc3lzdGVtOnNlcnZpY2VhY2NvdW50" + r(9) + "." + r(40),
		"GitHub":          "ghp_" + r(36), "GitLab": "glpat-" + r(20), "Docker": "dckr_pat_" + r(27), "registry": `{"auth": "` + r(12) + `="}`, "Artifactory": "AKCp" + r(69),
		"npm": "npm_" + r(36), "PyPI": "pypi-AgEIcHlwaS5vcmc" + r(50), "RubyGems": "rubygems_" + r(48), "Terraform": r(14) + ".atlasv1." + r(64),
		"Vault": "hvs." + r(95), "Pulumi": "pul-" + r(40), "Doppler": "dp.pt." + r(43), "1Password": "ops_eyJ" + r(250), "Databricks": "dapi" + r(32),
		"Dynatrace": "dt0c01." + r(24) + "." + r(64), "Grafana": "glsa_" + r(32) + "_" + r(8), "Sentry": "sntryu_" + r(64),
		"Harness": "pat." + r(22) + "." + r(24) + "." + r(20), "Prefect": "pnu_" + r(36), "Sourcegraph": "sgp_" + r(40), "token of Slack": "xoxb-" + r(12) + "-" + r(12),
		"webhook of Slack": "https://hooks.slack.com/services/" + r(44), "Teams": "https://a.webhook.office.com/webhookb2/" + r(36) + "@" + r(36) + "/IncomingWebhook",
		"Stripe": "sk_live_" + r(24), "SendGrid": "SG." + r(22) + "." + r(43), "Twilio": "SK" + r(32), "OpenAI": "sk-" + r(20) + "T3BlbkFJ" + r(20),
		"Anthropic": "sk-ant-api03-" + r(93), "Hugging": "hf_" + strings.Repeat("a", 34), "Postman": "PMAK-" + r(24) + "-" + r(34), "Shopify": "shpat_" + r(32),
		"PlanetScale": "pscale_tkn_" + r(40),
	} {
		manifests := fmt.Sprintf(`apiVersion: v1
kind: ConfigMap
metadata: {name: a}
data: {a: %[1]q}
---
apiVersion: v1
kind: Secret
metadata: {name: a}
data: {a: %[2]q}
stringData: {b: %[1]q}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec: {template: {spec: {containers: [{name: manager, env: [{name: TOKEN, value: %[1]q}]}]}}}
`, token, base64.StdEncoding.EncodeToString([]byte("token="+token+"\n")))
		found := 0
		for _, f := range check(manifests) {
			if f.Rule == "bundle/no-plaintext-credentials" && strings.Contains(f.Message, name) {
				found++
			}
			if strings.Contains(f.Message, token) {
				t.Errorf("%s: %s repeats the credential: %s", name, f.Rule, f.Message)
			}
		}
		if found != 4 {
			t.Errorf("%s: found in %d of 4 places", name, found)
		}
	}
}

// TestCredentials_NotInOtherValues: digests, names of objects, certificates and variables are no credentials.
func TestCredentials_NotInOtherValues(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"sha256:" + r(64), "registry.example.com/a@sha256:" + r(64), "${AWS_B64ENCODED_CREDENTIALS}", "-----BEGIN CERTIFICATE-----", "AKIAIOSFODNN7EXAMPLE",
		"ghp_short", "glpat-", "openshift-cluster-api/manager-token", "sk-learn", "https://hooks.slack.com/services/", r(200), `{"auths": {}}`,
	} {
		if name := credentialIn(text); name != "" {
			t.Errorf("%q: %s", text, name)
		}
	}
}
