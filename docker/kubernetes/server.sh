#!/bin/sh
# Every start of a server: `server TOKEN [kube-apiserver's flags]`. The bearer TOKEN is a user who may do everything. etcd
# listens on the loopback interface only, so that nothing but the API server reaches it.
set -eu
token=$1
shift
printf '%s,harness,harness,system:masters\n' "$token" >/etc/kubernetes/tokens.csv
etcd --data-dir /data/etcd --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
    --listen-peer-urls http://127.0.0.1:2380 --logger zap --log-outputs stderr &
key=/etc/kubernetes/service-account.key
exec kube-apiserver --etcd-servers http://127.0.0.1:2379 --token-auth-file /etc/kubernetes/tokens.csv \
    --authorization-mode RBAC --service-account-issuer https://kubernetes.default.svc \
    --service-account-key-file "$key" --service-account-signing-key-file "$key" \
    --service-cluster-ip-range 10.96.0.0/16 --disable-admission-plugins ServiceAccount \
    --tls-cert-file /etc/kubernetes/server.crt --tls-private-key-file /etc/kubernetes/server.key "$@"
