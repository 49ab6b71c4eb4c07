#!/bin/sh
# Makes the certificates beside it, valid for a hundred years but for the one that has expired. The tests read the files
# alone. Needs OpenSSL.
set -eu
cd "$(dirname "$0")"
key() { openssl ecparam -genkey -name prime256v1 -noout -out "$1-key.pem"; }
authority() {
    key "$1"
    openssl req -x509 -new -key "$1-key.pem" -subj "/CN=$1" -days 36500 -out "$1.pem"
}
signed() { # name, authority, alternative name, first and last moment
    key "$1"
    openssl req -new -key "$1-key.pem" -subj "/CN=$1" -out "$1.csr"
    mkdir -p issued && : > issued/index.txt && echo 01 > issued/serial
    printf '%s\n' "[ca]" "default_ca=here" "[here]" "database=issued/index.txt" "serial=issued/serial" "new_certs_dir=issued" \
        "default_md=sha256" "policy=any" "[any]" "commonName=supplied" "[names]" "subjectAltName=$3" > issued/openssl.cnf
    openssl ca -batch -notext -config issued/openssl.cnf -extensions names -cert "$2.pem" -keyfile "$2-key.pem" \
        -startdate "$4" -enddate "$5" -in "$1.csr" -out "$1.pem"
    rm -r "$1.csr" issued
}
authority trusted
authority stranger
signed server trusted "IP:127.0.0.1,DNS:localhost" 20200101000000Z 21200101000000Z
signed elsewhere trusted "DNS:elsewhere.example" 20200101000000Z 21200101000000Z
signed expired trusted "IP:127.0.0.1" 20200101000000Z 20210101000000Z
signed early trusted "IP:127.0.0.1" 21100101000000Z 21200101000000Z
signed client trusted "DNS:client" 20200101000000Z 21200101000000Z
openssl ec -in client-key.pem -aes256 -passout pass:secret -out client-key-locked.pem
rm trusted-key.pem stranger-key.pem
