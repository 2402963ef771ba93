// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"encoding/base64"
	"regexp"
	"strings"
	"sync"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/internal/object"
)

// credentialForms are the forms of credentials that are recognizable without context: their issuers gave them a prefix, so that scanners
// find them. The list covers the prefixes that gitleaks knows of clouds, registries, code hosts and other services that controllers use.
var credentialForms = []struct{ name, form string }{
	{"a private key", `-----BEGIN [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----`},
	{"an age secret key", `AGE-SECRET-KEY-1[0-9A-Z]{58}`},
	{"an access key of AWS", `\b(A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}\b`},
	{"an API key of AWS Bedrock", `\bABSK[\w+/]{109,269}={0,2}`},
	{"an access key of Alibaba Cloud", `\bLTAI[0-9A-Za-z]{20}\b`},
	{"a client secret of Azure", `(^|[^\w~.-])[\w~.]{3}\dQ~[\w~.-]{31,34}($|[^\w~.-])`},
	{"an account key of Azure", `\bAccountKey=[\w+/]{80,}={0,2}`},
	{"an API key of Google", `\bAIza[\w-]{35}\b`},
	{"an OAuth client secret of Google", `\bGOCSPX-[\w-]{28}\b`},
	{"a token of DigitalOcean", `\bdo[opr]_v1_[0-9a-f]{64}\b`},
	{"an origin CA key of Cloudflare", `\bv1\.0-[0-9a-f]{24}-[0-9a-f]{146}\b`},
	{"a token of Fly.io", `\b(fo1_[\w-]{43}|fm[12][ar]?_[\w+/]{100,})`},
	{"an API key of Heroku", `\bHRKU-AA[\w-]{58}\b`},
	{"a token of Scalingo", `\btk-us-[\w-]{48}\b`},
	{"a token of OpenShift", `\bsha256~[\w-]{43}\b`},
	{"a token of Rancher", `\b(kubeconfig-\w+|token-[0-9a-z]{5}):[0-9a-z]{54}\b`},
	{"a service account token of Kubernetes", `\beyJ[\w-]{17,}\.eyJ[\w-]*(c3lzdGVtOnNlcnZpY2VhY2NvdW50|N5c3RlbTpzZXJ2aWNlYWNjb3VudD|zeXN0ZW06c2VydmljZWFjY291bnQ)[\w-]*\.[\w-]{20,}`},
	{"a token of GitHub", `\b(gh[pousr]_[0-9A-Za-z]{36,}|github_pat_\w{82})`},
	{"a token of GitLab", `\b(gl(pat|dt|rt|ft|oas|soat|imt|ptt|agent|ffct)-[\w-]{20,}|glcbt-[0-9A-Za-z]{1,5}_[\w-]{20}|GR1348941[\w-]{20})`},
	{"a token of Docker Hub", `\bdckr_(pat|oat)_[\w-]{27,}`},
	{"a password of a registry", `"auth"\s*:\s*"[\w+/]{8,}={0,2}"`},
	{"an API key of Artifactory", `\b(AKCp[0-9A-Za-z]{69}|cmVmd[0-9A-Za-z]{59})\b`},
	{"a token of npm", `\bnpm_[0-9A-Za-z]{36}\b`},
	{"a token of PyPI", `\bpypi-AgEIcHlwaS5vcmc[\w-]{50,}`},
	{"a token of RubyGems", `\brubygems_[0-9a-f]{48}\b`},
	{"a token of Terraform Cloud", `\b[0-9A-Za-z]{14}\.atlasv1\.[\w=-]{60,70}`},
	{"a token of Vault", `\b(hvs\.[\w-]{90,120}|hvb\.[\w-]{138,300})\b`},
	{"a token of Pulumi", `\bpul-[0-9a-f]{40}\b`},
	{"a token of Doppler", `\bdp\.(pt|st|ct|sa)\.[\w.]{40,}\b`},
	{"a service account token of 1Password", `\bops_eyJ[\w+/]{250,}`},
	{"a token of Databricks", `\bdapi[0-9a-f]{32}\b`},
	{"a token of Dynatrace", `\bdt0c01\.[0-9A-Za-z]{24}\.[0-9A-Za-z]{64}\b`},
	{"a token of Grafana", `\b(glc_[\w+/]{32,}|glsa_[0-9A-Za-z]{32}_[0-9A-Fa-f]{8}\b|eyJrIjoi[0-9A-Za-z]{70,})`},
	{"a token of Sentry", `\b(sntryu_[0-9a-f]{64}|sntrys_eyJ[\w+/=]{60,})`},
	{"a token of Harness", `\b[ps]at\.[\w-]{22}\.[0-9A-Za-z]{24}\.[0-9A-Za-z]{20}\b`},
	{"a token of Prefect", `\bpnu_[0-9A-Za-z]{36}\b`},
	{"a token of Sourcegraph", `\bsgp_([0-9a-f]{16}_|local_)?[0-9a-f]{40}\b`},
	{"a token of Slack", `\b(xox[abeoprs](\.xox[bp])?-[\w-]{10,}|xapp-\d-[0-9A-Z]+-\d+-[0-9a-z]+)`},
	{"a webhook of Slack", `hooks\.slack\.com/(services|workflows|triggers)/[\w+/]{40,}`},
	{"a webhook of Microsoft Teams", `\.webhook\.office\.com/webhookb2/[0-9a-f-]{36}@[0-9a-f-]{36}/`},
	{"a key of Stripe", `\b[rs]k_(live|test|prod)_[0-9A-Za-z]{10,99}\b`},
	{"a key of SendGrid", `\bSG\.[\w-]{22}\.[\w-]{43}\b`},
	{"a key of Twilio", `\bSK[0-9a-f]{32}\b`},
	{"a key of OpenAI", `\bsk-([\w-]{10,}-)?[\w-]{20,}T3BlbkFJ[\w-]{20,}`},
	{"a key of Anthropic", `\bsk-ant-(api|admin)\d\d-[\w-]{80,}`},
	{"a token of Hugging Face", `\b(hf|api_org)_[A-Za-z]{34}\b`},
	{"a token of Postman", `\bPMAK-[0-9a-f]{24}-[0-9a-f]{34}\b`},
	{"a token of Shopify", `\bshp(at|ca|pa|ss)_[0-9A-Fa-f]{32}\b`},
	{"a token of PlanetScale", `\bpscale_(tkn|oauth|pw)_[\w=.-]{32,64}`},
}

// anyCredential matches the forms, each as a group of its own.
var anyCredential = sync.OnceValue(func() *regexp.Regexp {
	var forms []string
	for _, one := range credentialForms {
		forms = append(forms, "("+withoutGroups.ReplaceAllString(one.form, "${1}(?:")+")")
	}
	return regexp.MustCompile(strings.Join(forms, "|"))
})

// withoutGroups finds the groups of a form.
var withoutGroups = regexp.MustCompile(`(^|[^\\])\(`)

// credentialIn names the credential in a text; empty if there is none. The documentation of AWS has keys that end in EXAMPLE.
func credentialIn(text string) string {
	if len(text) < 16 {
		return ""
	}
	for _, match := range anyCredential().FindAllStringSubmatchIndex(text, -1) {
		for i, one := range credentialForms {
			if at := match[2+2*i]; at >= 0 && !strings.HasSuffix(text[at:match[3+2*i]], "EXAMPLE") {
				return one.name
			}
		}
	}
	return ""
}

// checkCredentials looks for credentials in the values of objects, such as environment variables, ConfigMaps and Secrets. Findings never
// repeat them. Descriptions in CRDs have examples.
func checkCredentials(b *contract.Bundle) []contract.Finding {
	findings := each(b.Objects, credentialsOf)
	if b.Release != nil {
		findings = append(findings, eachTemplateFile("", func(t *contract.Template) []contract.Finding { return each(t.Objects, credentialsOf) })(b)...)
	}
	return findings
}

func credentialsOf(o *contract.Object) (findings []contract.Finding) {
	if o.Kind == object.CustomResourceDefinition {
		return nil
	}
	for value := range o.All() {
		text := value.Text()
		isEncoded := o.Kind == object.Secret && strings.HasPrefix(value.Path, "data") || strings.HasPrefix(value.Path, "binaryData")
		if decoded, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), "")); isEncoded && err == nil {
			text = string(decoded)
		}
		if name := credentialIn(text); name != "" {
			findings = append(findings, value.Finding("the value contains %s", name))
		}
	}
	return findings
}
