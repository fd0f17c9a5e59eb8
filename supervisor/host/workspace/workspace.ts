/** `host.workspace`: the files of the account, never anything outside. */
import { hostCalls } from '../../../sdk/contract/protocol.ts';
import { HostError, type HostHandlers } from '../host-call.ts';
import type { Workspaces } from './workspaces.ts';

type Calls = 'workspace.list' | 'workspace.read' | 'workspace.readText' | 'workspace.write' | 'workspace.remove';

/** What is written can be read: one bound for both. */
const FILE_BYTES = hostCalls['workspace.read'].maxBytes;

export const workspaceCalls = (workspaces: Workspaces): Pick<HostHandlers, Calls> => ({
  'workspace.list': ({ entry }, { path }) => workspaces.list(entry.accountId, path),
  'workspace.read': ({ entry, signal }, { path }) => workspaces.read(entry.accountId, path, FILE_BYTES, signal),
  'workspace.readText': async ({ entry, signal }, { path }) => {
    const bytes = await workspaces.read(entry.accountId, path, FILE_BYTES, signal);
    try {
      return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    } catch {
      throw new HostError('the file is no UTF-8 text: use read');
    }
  },
  'workspace.write': async ({ entry, signal }, { path, content }) => {
    if (typeof content === 'string' && !content.isWellFormed())
      throw new HostError('the text holds half a surrogate pair');
    const bytes = typeof content === 'string' ? Buffer.from(content) : content;
    if (bytes.byteLength > FILE_BYTES) throw new HostError(`a file has ${FILE_BYTES} bytes at most`);
    await workspaces.write(entry.accountId, path, bytes, signal);
    return undefined;
  },
  'workspace.remove': async ({ entry, signal }, { path }) => {
    await workspaces.remove(entry.accountId, path, signal);
    return undefined;
  },
});
