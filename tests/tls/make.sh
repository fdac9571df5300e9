#!/bin/sh
# Makes the certificates of this folder anew.
set -eu
cd "$(dirname "$0")"
hidden=$(mktemp -d)
trap 'rm -rf "$hidden"' EXIT
key() { openssl ecparam -name prime256v1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt -out "$1"; }
sign() {
	printf '%s\n' "$2" > "$hidden/extensions"
	openssl x509 -req -in "$hidden/request" -CA ca.pem -CAkey "$hidden/ca.key" -CAcreateserial -CAserial "$hidden/serial" \
		-days 36500 -extfile "$hidden/extensions" -out "$1"
}
key "$hidden/ca.key"
openssl req -x509 -new -key "$hidden/ca.key" -days 36500 -subj "/CN=weigh tests" \
	-addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign" -out ca.pem
key server.key
key other.key
openssl req -new -key server.key -subj "/CN=weigh" -out "$hidden/request"
names="subjectAltName=DNS:node.example,DNS:*.cluster.example,IP:127.0.0.1,IP:::1"
sign server.pem "$(printf '%s\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth' "$names")"
sign nameless.pem "basicConstraints=CA:FALSE"
# It vouches for itself, so a client that trusts it trusts no other one here.
openssl req -x509 -new -key other.key -days 36500 -subj "/CN=weigh renewed" -addext "$names" \
	-addext "basicConstraints=critical,CA:FALSE" -addext "extendedKeyUsage=serverAuth" -out renewed.pem
