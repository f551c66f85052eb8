    DELETE t
    OUTPUT /*{values}*/
    INTO /*{other}*/ (/*{names}*/)
    /*{from}*/
    /*{where}*/OPTION (MAXDOP 1, KEEPFIXED PLAN);
