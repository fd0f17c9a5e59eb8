/** A package's way to the service, as a page holds it: under which number, how far it is, what was answered. */
import { useMutation } from '@tanstack/react-query';
import { useEffect, useEffectEvent, useState } from 'react';
import { queryClient } from '../rest/query-client.ts';
import type { Dropped } from './package-files.ts';
import { publishVersion, saveDraft } from './publish-requests.ts';

interface Sent {
  readonly pluginId: string;
  /** Null: there is nothing to send yet. */
  readonly dropped: Dropped | null;
  /** The last answer: a refusal, or null. */
  readonly onAnswer?: (refusal: Error | null) => void;
  /** Faults are worked off one by one, and stay until the next answer. */
  readonly keepsFaults?: boolean;
}
export type Publishing = ReturnType<typeof usePublishing>;

export function usePublishing({ pluginId, dropped, onAnswer, keepsFaults = false }: Sent) {
  const [semVer, setSemVer] = useState('');
  const [part, setPart] = useState(0);
  const publish = useMutation({
    mutationFn: () => publishVersion(pluginId, semVer.trim(), dropped, setPart),
    onSettled: (_none, refusal) => onAnswer?.(refusal),
    onSuccess: () => queryClient.invalidateQueries(),
  });
  const draft = useMutation({
    mutationFn: () => saveDraft(pluginId, dropped),
    onSettled: (_saved, refusal) => onAnswer?.(refusal),
    onSuccess: () => queryClient.invalidateQueries(),
  });
  const forget = useEffectEvent(() => {
    for (const sent of [publish, draft]) if (!(keepsFaults && sent.isError)) sent.reset();
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: what was said of another package is not said of this one
  useEffect(() => forget(), [dropped]);
  return {
    ...{ semVer, setSemVer, part, publish, draft },
    canPublish: dropped !== null && semVer.trim() !== '',
    canSave: dropped !== null && !('zip' in dropped),
  };
}
