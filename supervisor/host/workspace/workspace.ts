/** `host.workspace`: the files of the account's workspace. */
import { hostCalls } from '../../../sdk/contract/protocol.ts';
import { measureResult } from '../call-checks.ts';
import { HostError, type HostHandlers } from '../host-call.ts';
import type { Workspaces } from './workspaces.ts';

type Calls = 'workspace.list' | 'workspace.read' | 'workspace.readText' | 'workspace.write' | 'workspace.remove';

/** Limit of a file, for reading and writing. */
const FILE_BYTES = hostCalls['workspace.read'].maxBytes;
const LIST_BYTES = hostCalls['workspace.list'].maxBytes;

export const workspaceCalls = (workspaces: Workspaces): Pick<HostHandlers, Calls> => ({
  'workspace.list': async ({ plugin, signal }, { path }) => {
    const files = await workspaces.list(plugin.accountId, path, signal);
    if (measureResult(files) <= LIST_BYTES) return files;
    throw new HostError(`the list has more than ${LIST_BYTES} bytes, because paths are long: list a directory below`);
  },
  'workspace.read': ({ plugin, signal }, { path }) => workspaces.read(plugin.accountId, path, FILE_BYTES, signal),
  'workspace.readText': async ({ plugin, signal }, { path }) => {
    const bytes = await workspaces.read(plugin.accountId, path, FILE_BYTES, signal);
    try {
      return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    } catch {
      throw new HostError('the file is not UTF-8 text; use read');
    }
  },
  'workspace.write': async ({ plugin, signal }, { path, content }) => {
    if (typeof content === 'string' && !content.isWellFormed())
      throw new HostError('the text contains a lone surrogate');
    const bytes = typeof content === 'string' ? Buffer.from(content) : content;
    if (bytes.byteLength > FILE_BYTES) throw new HostError(`a file has ${FILE_BYTES} bytes at most`);
    await workspaces.write(plugin.accountId, path, bytes, signal);
    return undefined;
  },
  'workspace.remove': async ({ plugin, signal }, { path }) => {
    await workspaces.remove(plugin.accountId, path, signal);
    return undefined;
  },
});
