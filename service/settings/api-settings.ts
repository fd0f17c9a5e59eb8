/** Settings of the API process. */
import { removeTrailingSlashes } from '../../sdk/session/web-addresses.ts';
import { commaList, optionalText, sharedSettings, webAddress, wholeNumber } from './settings.ts';

export const apiSettings = {
  ...sharedSettings,
  WEBHOOK_URL: webAddress('Address at which vendors reach the webhook paths. Empty: PUBLIC_URL.'),
  CONSOLE_SESSION_HOURS: wholeNumber(
    1,
    8_760,
    168,
    'How long a sign-in to the console lasts. One with a token that Bulkhead issued, or with a token of the issuer for another client, ends with the token.',
    'hours',
  ),
  EXCHANGE_ISSUERS: commaList(
    'http or https addresses',
    (url) => /^https?:\/\/[^\s/]/.test(url),
    'OpenID Connect issuers, separated by commas, whose tokens services exchange for tokens of accounts that allowed it (POST /oauth/token). Empty: none.',
    removeTrailingSlashes,
  ),
  EXCHANGE_AUDIENCE: optionalText('The audience that tokens of services must have. Empty: PUBLIC_URL.'),
  READS_PER_MINUTE: wholeNumber(1, 10_000_000, 1_200, 'REST reads of one account.', 'a minute'),
  WRITES_PER_MINUTE: wholeNumber(1, 10_000_000, 600, 'REST writes of one account.', 'a minute'),
  UPLOADS_AT_ONCE: wholeNumber(1, 1_000, 10, 'Concurrent package uploads of one API process.'),
  WEBHOOKS_PER_SECOND: wholeNumber(
    1,
    1_000_000,
    500,
    'Webhook requests of one routing id. All routing ids of an account together get ten times as many.',
    'a second',
  ),
  WEBHOOK_BURST: wholeNumber(
    1,
    1_000_000,
    1_000,
    'Webhook requests of one routing id in a burst. All routing ids of an account together get ten times as many.',
  ),
  SPOOL_MEGABYTES: wholeNumber(
    1,
    1_000_000,
    1_024,
    'Maximum size of webhook requests stored on disk while the database is unavailable. Beyond it, vendors get 503. Where several accounts have webhook addresses, each gets at most two thirds of it.',
    'megabytes',
  ),
  PLUGINS_PER_ACCOUNT: wholeNumber(1, 100_000, 1_000, 'Maximum number of plugins that one account owns.'),
  INSTALLATIONS_PER_ACCOUNT: wholeNumber(1, 100_000, 100, 'Maximum number of installations of one account.'),
} as const;
