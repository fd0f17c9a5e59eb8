/** The state of publishing a package or saving it as a draft. */
import { useMutation } from '@tanstack/react-query';
import { useEffect, useEffectEvent, useState } from 'react';
import { queryClient } from '../rest/query-client.ts';
import type { Dropped } from './package-files.ts';
import { publishVersion, saveDraft } from './publish-requests.ts';

interface PublishingOptions {
  readonly pluginId: string;
  /** Null until the user has chosen a package. */
  readonly dropped: Dropped | null;
  /** Called after each request with its error or null. */
  readonly onAnswer?: (refusal: Error | null) => void;
  /** Whether faults stay visible while the user edits. */
  readonly keepsFaults?: boolean;
}
export type Publishing = ReturnType<typeof usePublishing>;

export function usePublishing({ pluginId, dropped, onAnswer, keepsFaults = false }: PublishingOptions) {
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
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new package clears the result of the previous one
  useEffect(() => forget(), [dropped]);
  return {
    semVer,
    setSemVer,
    part,
    publish,
    draft,
    canPublish: dropped !== null && semVer.trim() !== '',
    canSave: dropped !== null && !('zip' in dropped),
  };
}
