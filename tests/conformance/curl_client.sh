#!/bin/sh
# A whole client of the broker's API in curl and openssl: nothing of this project's own code.
#
# BASE_URL, API_KEY, API_SECRET, OTP_CODE and SYMBOL are in the environment. It walks through
# bootstrap, quote, a refused write (403), the exchange of a one-time code, place, detail, modify and
# cancel, and prints one line for each: `step status facts`. It ends with 1 at the first surprise.
set -eu

body_file=$(mktemp)
answer_file=$(mktemp)
trap 'rm -f "$body_file" "$answer_file"' EXIT
token=

fail() {
    printf 'FAILED %s: HTTP %s %s\n' "$1" "$status" "$(cat "$answer_file")"
    exit 1
}

# field NAME: the first value of that JSON member, without quotes.
field() { sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\)\"\{0,1\}.*/\1/p" "$answer_file" | head -n 1; }

# call METHOD TARGET [BODY]: signs, sends, leaves the answer in $answer_file and $status.
call() {
    method=$1 target=$2
    printf '%s' "${3:-}" >"$body_file"
    timestamp=$(date +%s)000
    nonce=$(openssl rand -hex 16)
    body_hash=
    if [ -s "$body_file" ]; then
        body_hash=$(openssl dgst -sha256 -hex "$body_file" | sed 's/.*= *//')
    fi
    signature=$(printf '%s\n%s\n%s\n%s' "$timestamp" "$method" "$target" "$body_hash" |
        openssl dgst -sha256 -hmac "$API_SECRET" -hex | sed 's/.*= *//')
    set -- --silent --show-error --max-time 10 --output "$answer_file" --write-out '%{http_code}' \
        --request "$method" --header "X-FH-APIKEY: $API_KEY" \
        --header "X-FH-TIMESTAMP: $timestamp" --header "X-FH-NONCE: $nonce" \
        --header "X-FH-SIGNATURE: $signature" --header "device-id: curl-and-openssl"
    if [ -s "$body_file" ]; then
        set -- "$@" --header "X-FH-BODYHASH: $body_hash" \
            --header "Content-Type: application/json" --data-binary "@$body_file"
    fi
    if [ -n "$token" ]; then set -- "$@" --header "X-FH-2FA-TOKEN: $token"; fi
    status=$(curl "$@" "$BASE_URL$target")
}

# expect STEP STATUS NAME VALUE: the status, and a member with that value.
expect() {
    [ "$status" = "$2" ] && [ "$(field "$3")" = "$4" ] || fail "$1"
    printf '%s %s %s=%s\n' "$1" "$status" "$3" "$4"
}

call GET /users/v1/users/me
user_id=$(field user_id)
expect bootstrap 200 error_code 0

call GET "/users/v1/users/$user_id/sub-accounts"
account=$(field id)
extended=$(field sub_account_ext)
expect sub-accounts 200 type Normal

call GET "/market/quotes/stocks/$SYMBOL"
price=$(field floor)
expect quote 200 symbol "$SYMBOL"

orders="/trading/oa/sub-accounts/$account/orders"
order() {
    printf '{"sub_account":"%s","side":"BUY","symbol":"%s","quantity":100,"type":"LIMIT",' \
        "$extended" "$SYMBOL"
    printf '"limit_price":%s,"market_price":null,"stock_type":"STOCK"}' "$price"
}
call POST "$orders" "$(order)"
expect without-token 403 error_code OTP_SESSION_REQUIRED

call POST /auth/v1/openapi/2fa/request '{"channel":"EMAIL"}'
ticket=$(field ticket_id)
expect otp-request 200 masked_destination 'd***@example.com'

call POST /auth/v1/openapi/2fa/verify "{\"ticket_id\":\"$ticket\",\"otp_code\":\"$OTP_CODE\"}"
[ "$status" = 200 ] || fail otp-verify
token=$(field session_token)
[ -n "$token" ] || fail otp-verify
printf 'otp-verify 200\n'

call POST "$orders" "$(order)"
order_id=$(field order_id)
expect place 200 order_status SENT

detail="/trading/v1/accounts/$account/order-book/$order_id"
call GET "$detail?cache-control=NOCACHE"
expect detail 200 status SENT

call PUT "$orders/$order_id" '{"quantity": 200}'
expect modify 200 order_quantity 200

call DELETE "$orders/$order_id" "{\"sub_account\":\"$extended\"}"
expect cancel 200 order_status CANCELLED

call GET "$detail"
expect after-cancel 200 remainqtty 0
