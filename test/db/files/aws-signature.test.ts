/** Signatures are those that AWS publishes for its example requests. */
import t from 'tap';
import { encodePath, signRequest } from '../../../db/files/aws-signature.ts';
import { hashBytes } from '../../../db/files/blob-cache.ts';

const credentials = {
  accessKeyId: 'AKIAIOSFODNN7EXAMPLE',
  secretAccessKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
  sessionToken: undefined,
};
const at = new Date('2013-05-24T00:00:00Z');
const host = 'https://examplebucket.s3.amazonaws.com';

t.test('of a GET', async (t) => {
  const url = new URL(encodePath('/test.txt'), host);
  const request = { method: 'GET', url, headers: { range: 'bytes=0-9' }, bodySha256: hashBytes(new Uint8Array()) };
  const { authorization } = signRequest(request, credentials, 'us-east-1', at);
  t.match(authorization, 'Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41');
});

t.test('of a PUT whose name must be encoded', async (t) => {
  const headers = { date: 'Fri, 24 May 2013 00:00:00 GMT', 'x-amz-storage-class': 'REDUCED_REDUNDANCY' };
  const url = new URL(encodePath('/test$file.text'), host);
  const request = { method: 'PUT', url, headers, bodySha256: hashBytes(Buffer.from('Welcome to Amazon S3.')) };
  const { authorization } = signRequest(request, credentials, 'us-east-1', at);
  t.match(authorization, 'Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd');
});
