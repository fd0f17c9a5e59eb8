/** Decrypts a private key once, when it is added, and writes it without a passphrase, so that later logins read it in a millisecond. */
import { createPrivateKey, type KeyObject } from 'node:crypto';
import ssh2 from 'ssh2';

export interface PrivateKeyText {
  readonly text: string;
  readonly passphrase?: string | undefined;
}

/** Null: it is not a private key, its type is not supported, or its passphrase is missing or wrong. */
export function openPrivateKey({ text, passphrase }: PrivateKeyText): string | null {
  const parsed = ssh2.utils.parseKey(text, passphrase);
  if (parsed instanceof Error || !parsed.isPrivateKey()) return null;
  try {
    return writeKey(createPrivateKey(parsed.getPrivatePEM()));
  } catch {
    // Its format is right, but its numbers do not form a key.
    return null;
  }
}

/** Writes a key in a format that the SSH library reads. Null: the type is not supported. */
function writeKey(key: KeyObject): string | null {
  if (key.asymmetricKeyType === 'rsa') return String(key.export({ type: 'pkcs1', format: 'pem' }));
  if (key.asymmetricKeyType === 'ec') return String(key.export({ type: 'sec1', format: 'pem' }));
  return key.asymmetricKeyType === 'ed25519' ? writeEd25519(key) : null;
}

const TYPE = 'ssh-ed25519';
const BLOCK_BYTES = 8;
const PEM_LINE = /.{1,70}/g;

/** `openssh-key-v1` without encryption: PROTOCOL.key of OpenSSH. */
function writeEd25519(key: KeyObject): string {
  const { x = '', d = '' } = key.export({ format: 'jwk' });
  const [open, secret] = [Buffer.from(x, 'base64url'), Buffer.from(d, 'base64url')];
  const publicKey = Buffer.concat([writeField(TYPE), writeField(open)]);
  // The format begins with two equal check numbers, by which readers notice a wrong passphrase, and ends with a comment, empty here.
  const fields = [Buffer.alloc(8), publicKey, writeField(Buffer.concat([secret, open])), writeField('')];
  const bytes = fields.reduce((sum, { byteLength }) => sum + byteLength, 0);
  const padding = Array.from({ length: (BLOCK_BYTES - (bytes % BLOCK_BYTES)) % BLOCK_BYTES }, (_, index) => index + 1);
  const blob = Buffer.concat([
    Buffer.from('openssh-key-v1\0'),
    ...['none', 'none', ''].map(writeField),
    writeNumber(1),
    writeField(publicKey),
    writeField(Buffer.concat([...fields, Buffer.from(padding)])),
  ]);
  const lines = blob.toString('base64').match(PEM_LINE) ?? [];
  return ['-----BEGIN OPENSSH PRIVATE KEY-----', ...lines, '-----END OPENSSH PRIVATE KEY-----', ''].join('\n');
}

function writeNumber(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

function writeField(value: string | Buffer): Buffer {
  const bytes = Buffer.from(value as string);
  return Buffer.concat([writeNumber(bytes.byteLength), bytes]);
}
